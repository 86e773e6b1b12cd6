import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import net.cnri.util.StreamTable;
import net.cnri.util.StreamVector;
import net.handle.hdllib.Attribute;
import net.handle.hdllib.BootstrapHandles;
import net.handle.hdllib.Common;
import net.handle.hdllib.Encoder;
import net.handle.hdllib.GsonUtility;
import net.handle.hdllib.HandleRecord;
import net.handle.hdllib.HandleStorage;
import net.handle.hdllib.HandleValue;
import net.handle.hdllib.Interface;
import net.handle.hdllib.ServerInfo;
import net.handle.hdllib.SiteInfo;
import net.handle.hdllib.Util;
import net.handle.server.HandleStorageFactory;
import net.handle.server.Main;

/** Starts the Handle.Net server on 127.0.0.1 with its own root; prints `ready` on stderr when it listens. */
final class HandleNetServer {
    private static final String USAGE = "usage: HandleNetServer DIRECTORY NATIVE-PORT HTTP-PORT HTTPS-PORT ADMIN RECORDS [--synced]";

    private final Path folder;
    private final int nativePort;
    private final int httpPort;
    private final int httpsPort;
    /** Admin with full access, such as `300:0.NA/10.5555`. */
    private final String admin;

    private HandleNetServer(Path folder, int nativePort, int httpPort, int httpsPort, String admin) {
        this.folder = folder;
        this.nativePort = nativePort;
        this.httpPort = httpPort;
        this.httpsPort = httpsPort;
        this.admin = admin;
    }

    public static void main(String[] arguments) throws Exception {
        boolean synced = arguments.length == 7 && arguments[6].equals("--synced");
        if (arguments.length != 6 && !synced) {
            System.err.println(USAGE);
            System.exit(2);
        }
        HandleNetServer server = new HandleNetServer(
                Path.of(arguments[0]).toAbsolutePath(),
                Integer.parseInt(arguments[1]),
                Integer.parseInt(arguments[2]),
                Integer.parseInt(arguments[3]),
                arguments[4]);
        Files.createDirectories(server.folder.resolve("resolver"));
        // The server redirects System.err to its log.
        PrintStream stderr = System.err;
        server.createSite();
        server.loadRecords(Path.of(arguments[5]));
        server.start(synced);
        stderr.println("ready");
    }

    /** Creates a key, the site record, and a root that is the same site, so that no other server is contacted. */
    private void createSite() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        KeyPair key = generator.generateKeyPair();
        byte[] publicKey = Util.getBytesFromPublicKey(key.getPublic());
        byte[] privateKey = Util.getBytesFromPrivateKey(key.getPrivate());
        Files.write(folder.resolve("pubkey.bin"), publicKey);
        Files.write(folder.resolve("privkey.bin"), Util.encrypt(privateKey, null, Common.ENCRYPT_NONE));

        ServerInfo here = new ServerInfo();
        here.serverId = 1;
        here.ipAddress = new byte[16];
        System.arraycopy(InetAddress.getByName("127.0.0.1").getAddress(), 0, here.ipAddress, 12, 4);
        here.publicKey = publicKey;
        here.interfaces = new Interface[] {
            new Interface(Interface.ST_ADMIN_AND_QUERY, Interface.SP_HDL_TCP, nativePort),
            new Interface(Interface.ST_QUERY, Interface.SP_HDL_UDP, nativePort),
            new Interface(Interface.ST_ADMIN_AND_QUERY, Interface.SP_HDL_HTTP, httpPort),
            new Interface(Interface.ST_ADMIN_AND_QUERY, Interface.SP_HDL_HTTPS, httpsPort),
        };
        SiteInfo site = new SiteInfo();
        site.serialNumber = 1;
        site.isPrimary = true;
        site.hashOption = SiteInfo.HASH_TYPE_BY_ALL;
        site.attributes = new Attribute[] {new Attribute(Util.encodeString("desc"), Util.encodeString("Java"))};
        site.servers = new ServerInfo[] {here};
        byte[] siteBytes = Encoder.encodeSiteInfoRecord(site);
        Files.write(folder.resolve("siteinfo.bin"), siteBytes);

        Map<String, HandleRecord> root = new TreeMap<>();
        root.put("0.NA/0.NA", record("0.NA/0.NA", new HandleValue(1, Common.SITE_INFO_TYPE, siteBytes)));
        root.put("0.0/0.0", record("0.0/0.0", new HandleValue(300, Common.PUBLIC_KEY_TYPE, publicKey)));
        Path resolver = folder.resolve("resolver");
        String bootstrap = GsonUtility.getGson().toJson(new BootstrapHandles(root));
        Files.writeString(resolver.resolve("bootstrap_handles"), bootstrap);
        Files.writeString(resolver.resolve("config.dct"), "{\n\"auto_update_root_info\" = \"no\"\n}\n");
        System.setProperty("net.handle.configDir", resolver.toString());
    }

    private static HandleRecord record(String handle, HandleValue value) {
        return new HandleRecord(handle, List.of(value));
    }

    /** Loads the records into the store, one per line, at the first start; the prefix of every record is homed. */
    private void loadRecords(Path records) throws Exception {
        Path done = folder.resolve("loaded");
        if (Files.exists(done)) {
            return;
        }
        HandleStorage store = HandleStorageFactory.getStorage(folder.toFile(), serverConfig(false), true);
        Set<String> prefixes = new HashSet<>();
        try (BufferedReader lines = Files.newBufferedReader(records)) {
            for (String line; (line = lines.readLine()) != null; ) {
                HandleRecord record = GsonUtility.getGson().fromJson(line, HandleRecord.class);
                // The server looks up names in upper case only.
                byte[] name = Util.upperCase(Util.encodeString(record.getHandle()));
                store.createOrUpdateRecord(name, record.getValuesAsArray());
                prefixes.add(Util.decodeString(Util.getZeroNAHandle(name)));
            }
        }
        for (String prefix : prefixes) {
            store.setHaveNA(Util.encodeString(prefix), true);
        }
        store.checkpointDatabase();
        store.shutdown();
        Files.createFile(done);
    }

    private StreamTable serverConfig(boolean synced) {
        StreamVector admins = new StreamVector();
        admins.add(admin);
        StreamTable settings = new StreamTable();
        settings.put("this_server_id", "1");
        settings.put("server_admins", admins);
        settings.put("server_admin_full_access", "yes");
        settings.put("allow_list_hdls", "yes");
        settings.put("allow_recursion", "no");
        settings.put("bdbje_no_sync_on_write", synced ? "no" : "yes");
        // Otherwise each checkpoint writes the whole store again, as text.
        settings.put("bdbje_dump_on_checkpoint", "no");
        return settings;
    }

    private void start(boolean synced) throws Exception {
        StreamVector interfaces = new StreamVector();
        interfaces.addAll(List.of("hdl_udp", "hdl_tcp", "hdl_http", "hdl_https"));
        StreamTable settings = new StreamTable();
        settings.put("server_type", "server");
        settings.put("interfaces", interfaces);
        settings.put("hdl_udp_config", interfaceConfig(nativePort));
        settings.put("hdl_tcp_config", interfaceConfig(nativePort));
        // By default HTTP and HTTPS share a port. Then a connection without a request, such as the first one of `wrk`, keeps a
        // core busy: the server polls for its first byte.
        StreamTable http = interfaceConfig(httpPort);
        http.put("http_only", "yes");
        settings.put("hdl_http_config", http);
        settings.put("hdl_https_config", interfaceConfig(httpsPort));
        settings.put("server_config", serverConfig(synced));
        settings.put("no_udp_resolution", "yes");
        Main main = new Main(folder.toFile(), settings);
        main.initialize();
        main.start();
        for (int port : new int[] {nativePort, httpPort, httpsPort}) {
            awaitPort(port);
        }
    }

    private static StreamTable interfaceConfig(int port) {
        StreamTable config = new StreamTable();
        config.put("bind_address", "127.0.0.1");
        config.put("bind_port", Integer.toString(port));
        config.put("num_threads", "15");
        config.put("log_accesses", "no");
        return config;
    }

    private static void awaitPort(int port) throws Exception {
        for (int tries = 0; tries < 500; tries++) {
            try {
                new Socket("127.0.0.1", port).close();
                return;
            } catch (IOException notListening) {
                Thread.sleep(20);
            }
        }
        throw new IOException("port not listening: " + port);
    }
}
