import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import net.handle.apps.batch.GenericBatch;
import net.handle.hdllib.SecretKeyAuthenticationInfo;
import net.handle.hdllib.Util;

/** Executes a batch file with Handle.Net's batch tool, {@code hdl-genericbatch}, and prints its log. */
final class BatchRunner {
    private BatchRunner() {
    }

    /** Arguments: ADDRESS:PORT of the server, INDEX:PREFIX/SUFFIX of the secret key, the secret, the batch file. */
    public static void main(String[] arguments) throws Exception {
        String[] key = arguments[1].split(":", 2);
        LocalSite.use(arguments[0], key[1].substring(0, key[1].indexOf('/')));
        SecretKeyAuthenticationInfo identity = new SecretKeyAuthenticationInfo(
                Util.encodeString(key[1]), Integer.parseInt(key[0]), arguments[2].getBytes(StandardCharsets.UTF_8));
        try (BufferedReader batch = Files.newBufferedReader(Path.of(arguments[3]), StandardCharsets.UTF_8);
                PrintWriter log = new PrintWriter(System.out, true, StandardCharsets.UTF_8)) {
            new GenericBatch(batch, identity, log).processBatch();
        }
        System.exit(0);
    }
}
