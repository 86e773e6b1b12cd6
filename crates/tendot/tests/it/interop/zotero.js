// Imports files with Zotero's translators, as `zotero-translators` bundles them: `node zotero.js BUNDLE FILE...` prints a line of
// JSON with the imported items for each file.
"use strict";
const fs = require("fs");
const Module = require("module");

// Its dependencies read HTML, XML and the network, which the tested formats do not need.
class DOMParser {
  parseFromString() {
    // As for text that is not XML.
    return { getElementsByTagName: () => [{}] };
  }
}
class JSDOM {
  constructor() {
    this.window = { document: {}, DOMParser };
  }
}
const xregexp = (pattern, flags = "") => new RegExp(pattern, flags.replace(/[^gimsuy]/g, "") + "u");
const stubs = {
  "iconv-lite": {},
  jsdom: { JSDOM },
  request: { defaults: () => ({}), jar: () => ({}) },
  "wicked-good-xpath": { install() {} },
  xregexp: Object.assign(xregexp, { replace: (text, pattern, by) => text.replace(pattern, by) }),
};
const load = Module._load;
Module._load = function (name, ...rest) {
  if (name in stubs) return stubs[name];
  if (/^(jsdom|w3c-|whatwg-|html-encoding)/.test(name)) {
    return class {
      static get interface() {
        return class {};
      }
    };
  }
  return load.call(this, name, ...rest);
};

const [bundle, ...files] = process.argv.slice(2);
// The log goes to stdout, too.
const print = process.stdout.write.bind(process.stdout);
const log = [];
process.stdout.write = (text) => log.push(text);
console.log = (text) => log.push(text);
const { referenceImport } = require(bundle);
(async () => {
  for (const file of files) {
    print(JSON.stringify(await referenceImport(fs.readFileSync(file, "utf8"))) + "\n");
  }
  process.exit(0);
})().catch((error) => {
  console.error(log.slice(-20).join("\n"), error);
  process.exit(1);
});
