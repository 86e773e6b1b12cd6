import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import net.handle.hdllib.GsonUtility;
import net.handle.hdllib.HandleRecord;
import net.handle.hdllib.HandleResolver;
import net.handle.hdllib.HandleValue;
import net.handle.hdllib.Util;
import net.handle.hdllib.ValueReference;
import net.handle.hdllib.trust.ChainBuilder;
import net.handle.hdllib.trust.ChainVerifier;
import net.handle.hdllib.trust.HandleRecordTrustVerifier;
import net.handle.hdllib.trust.HandleSigner;
import net.handle.hdllib.trust.JsonWebSignature;
import net.handle.hdllib.trust.Permission;

/**
 * Signs and verifies records with the classes of Handle.Net. Records are JSON, one per line.
 *
 * <p>{@code sign RECORDS ROOT-KEY SIGNER SIGNER-KEY} prints the records with a signature each, preceded by the record of the
 * trust anchor ({@code 0.0/0.0}) and that of the signer, with their certificates. {@code verify RECORDS ROOT-PUBLIC-KEY} prints
 * for each record with signatures {@code trusted HANDLE} or {@code rejected HANDLE: reason}.
 */
final class SignedRecords {
    private static final long DAY = 86_400;
    private static final ValueReference ROOT = ValueReference.fromString("300:0.0/0.0");

    public static void main(String[] arguments) throws Exception {
        List<HandleRecord> records = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[1]))) {
            records.add(GsonUtility.getGson().fromJson(line, HandleRecord.class));
        }
        if (arguments[0].equals("sign")) {
            sign(records, privateKey(arguments[2]), ValueReference.fromString(arguments[3]), privateKey(arguments[4]));
        } else {
            verify(records, Util.getPublicKeyFromFile(arguments[2]));
        }
    }

    private static PrivateKey privateKey(String file) throws Exception {
        return Util.getPrivateKeyFromBytes(Util.decrypt(Files.readAllBytes(Path.of(file)), null));
    }

    private static PublicKey publicKey(PrivateKey key) throws Exception {
        var rsa = (java.security.interfaces.RSAPrivateCrtKey) key;
        var spec = new java.security.spec.RSAPublicKeySpec(rsa.getModulus(), rsa.getPublicExponent());
        return java.security.KeyFactory.getInstance("RSA").generatePublic(spec);
    }

    private static void sign(List<HandleRecord> records, PrivateKey rootKey, ValueReference signer, PrivateKey signerKey)
            throws Exception {
        long now = System.currentTimeMillis() / 1000;
        HandleSigner handleSigner = HandleSigner.getInstance();
        List<Permission> everything = List.of(new Permission(null, Permission.EVERYTHING));
        JsonWebSignature rootCertificate = handleSigner.signPermissions(
                ROOT, publicKey(rootKey), everything, ROOT, rootKey, null, now - DAY, now + 30 * DAY);
        print(ROOT.getHandleAsString(), List.of(
                new HandleValue(300, "HS_PUBKEY", Util.getBytesFromPublicKey(publicKey(rootKey))),
                new HandleValue(400, "HS_CERT", rootCertificate.serialize())));
        List<Permission> under =
                List.of(new Permission(signer.getHandleAsString(), Permission.HANDLES_UNDER_THIS_PREFIX));
        JsonWebSignature certificate = handleSigner.signPermissions(
                signer, publicKey(signerKey), under, ROOT, rootKey, null, now - DAY, now + 20 * DAY);
        print(signer.getHandleAsString(), List.of(
                new HandleValue(signer.index, "HS_PUBKEY", Util.getBytesFromPublicKey(publicKey(signerKey))),
                new HandleValue(400, "HS_CERT", certificate.serialize())));
        for (HandleRecord record : records) {
            List<HandleValue> values = new ArrayList<>(record.getValues());
            JsonWebSignature signature = handleSigner.signHandleValues(
                    record.getHandle(), values, signer, signerKey, null, now - DAY, now + 10 * DAY);
            values.add(new HandleValue(400, "HS_SIGNATURE", signature.serialize()));
            print(record.getHandle(), values);
        }
    }

    private static void print(String handle, List<HandleValue> values) {
        System.out.println(GsonUtility.getGson().toJson(new HandleRecord(handle, values)));
    }

    private static void verify(List<HandleRecord> records, PublicKey rootKey) throws Exception {
        Map<String, HandleRecord> known = new HashMap<>();
        for (HandleRecord record : records) known.put(record.getHandle(), record);
        ChainBuilder builder = new ChainBuilder(known, new HandleResolver());
        HandleRecordTrustVerifier verifier = new HandleRecordTrustVerifier(builder, new ChainVerifier(List.of(rootKey)));
        for (HandleRecord record : records) {
            if (record.getValuesOfType("HS_SIGNATURE").isEmpty()) continue;
            String error = verifier.validateHandleRecordReturnReport(record).getErrorMessage();
            boolean trusted = verifier.validateHandleRecord(record);
            System.out.println(trusted ? "trusted " + record.getHandle() : "rejected " + record.getHandle() + ": " + error);
        }
    }
}
