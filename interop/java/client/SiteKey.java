import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.Base64;
import net.handle.hdllib.Common;
import net.handle.hdllib.Util;

/** Generates a site key in Handle.Net files and as PEM, because HTTPS must use the same key. */
final class SiteKey {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        KeyPair key = generator.generateKeyPair();
        byte[] privateKey = Util.getBytesFromPrivateKey(key.getPrivate());
        Files.write(folder.resolve("pubkey.bin"), Util.getBytesFromPublicKey(key.getPublic()));
        Files.write(folder.resolve("privkey.bin"), Util.encrypt(privateKey, null, Common.ENCRYPT_NONE));
        Base64.Encoder lines = Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.UTF_8));
        String text = lines.encodeToString(key.getPrivate().getEncoded());
        Files.writeString(
                folder.resolve("key.pem"), "-----BEGIN PRIVATE KEY-----\n" + text + "\n-----END PRIVATE KEY-----\n");
    }
}
