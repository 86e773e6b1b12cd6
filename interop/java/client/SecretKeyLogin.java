import java.nio.charset.StandardCharsets;
import net.handle.api.HSAdapterFactory;
import net.handle.hdllib.HandleException;

/** Logs in with a secret key, as programs with Handle.Net's adapter and its administration tool do. */
final class SecretKeyLogin {
    private SecretKeyLogin() {
    }

    /** Prints whether the server at ADDRESS:PORT accepts the secret of INDEX:PREFIX/SUFFIX. */
    public static void main(String[] arguments) throws Exception {
        String[] key = arguments[1].split(":", 2);
        LocalSite.use(arguments[0], key[1].substring(0, key[1].indexOf('/')));
        byte[] secret = arguments[2].getBytes(StandardCharsets.UTF_8);
        try {
            HSAdapterFactory.newInstance(key[1], Integer.parseInt(key[0]), secret);
            System.out.println("accepted");
        } catch (HandleException refusal) {
            System.out.println("refused: " + refusal);
        }
        System.exit(0);
    }
}
