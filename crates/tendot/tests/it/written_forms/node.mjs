// Sends each target as Node's clients do, follows redirects, and prints one result per line: status, last URL, body.
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';

const [client, base, file] = process.argv.slice(2);
const targets = JSON.parse(fs.readFileSync(file, 'utf8'));

async function byFetch(target) {
    const response = await fetch(base + target);
    return [response.status, response.url, await response.text()];
}

function byHttp1(target, url = new URL(base)) {
    return new Promise((resolve, reject) => {
        const request = http.get({ host: url.hostname, port: url.port, path: target, agent: false }, response => {
            let body = '';
            response.on('data', data => body += data);
            response.on('end', () => resolve([response.statusCode, response.headers.location, body]));
        });
        request.on('error', reject);
    });
}

let session;
function byHttp2(target) {
    session ??= http2.connect(base, { rejectUnauthorized: false });
    return new Promise((resolve, reject) => {
        const stream = session.request({ ':path': target });
        let head, body = '';
        stream.on('response', headers => head = headers);
        stream.on('data', data => body += data);
        stream.on('end', () => resolve([head[':status'], head.location, body]));
        stream.on('error', reject);
    });
}

async function follow(send, target) {
    for (let hops = 0; hops < 5; hops++) {
        const [status, location, body] = await send(target);
        if (!location) return [status, target, body];
        if (!location.startsWith('/')) return [200, location, ''];
        target = location;
    }
    return [0, target, 'too many redirects'];
}

const clients = {
    fetch: byFetch,
    http1: target => follow(byHttp1, target),
    http2: target => follow(byHttp2, target),
};
for (const target of targets) {
    let result;
    try {
        result = await clients[client](target);
    } catch (error) {
        result = [0, target, String(error)];
    }
    console.log(JSON.stringify(result));
}
session?.close();
