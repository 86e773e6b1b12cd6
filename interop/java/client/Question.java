import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivateKey;
import java.util.List;
import net.handle.hdllib.AbstractMessage;
import net.handle.hdllib.AbstractRequest;
import net.handle.hdllib.AddValueRequest;
import net.handle.hdllib.AuthenticationInfo;
import net.handle.hdllib.Common;
import net.handle.hdllib.CreateHandleRequest;
import net.handle.hdllib.DeleteHandleRequest;
import net.handle.hdllib.GenericRequest;
import net.handle.hdllib.HandleValue;
import net.handle.hdllib.HomeNaRequest;
import net.handle.hdllib.ListHandlesRequest;
import net.handle.hdllib.ListNAsRequest;
import net.handle.hdllib.ModifyValueRequest;
import net.handle.hdllib.PublicKeyAuthenticationInfo;
import net.handle.hdllib.RemoveValueRequest;
import net.handle.hdllib.ResolutionRequest;
import net.handle.hdllib.SecretKeyAuthenticationInfo;
import net.handle.hdllib.UnhomeNaRequest;
import net.handle.hdllib.Util;
import net.handle.hdllib.ValueReference;

/** A line of the input; the keys of the object are the names of these fields. */
final class Question {
    String op;
    String handle = "";
    HandleValue[] values = {};
    int[] indexes = {};
    String[] types = {};
    /** udp, tcp, http, https; or root: where to ask is found out from the root, which is the server. */
    String via = "tcp";
    /** Whose key it is: `300:0.NA/10.5555`. */
    String as;
    String secret;
    /** The file of a private key. */
    String key;
    /** plain, encrypted, certified, or `encrypted certified`; without it there is no session. */
    String session;
    /** certify, cacheCertify, authoritative, encrypt, restricted, digest, overwrite. */
    List<String> flags = List.of();

    AbstractRequest request() throws Exception {
        byte[] name = Util.encodeString(handle);
        AuthenticationInfo who = who();
        AbstractRequest request = switch (op) {
            case "site" -> new GenericRequest(Common.BLANK_HANDLE, AbstractMessage.OC_GET_SITE_INFO, who);
            case "resolve" -> new ResolutionRequest(name, types(), indexes, who);
            case "create" -> new CreateHandleRequest(name, values, who);
            case "delete" -> new DeleteHandleRequest(name, who);
            case "add" -> new AddValueRequest(name, values, who);
            case "modify" -> new ModifyValueRequest(name, values, who);
            case "remove" -> new RemoveValueRequest(name, indexes, who);
            case "list" -> new ListHandlesRequest(name, who);
            case "prefixes" -> new ListNAsRequest(name, who);
            case "home" -> new HomeNaRequest(name, who);
            case "unhome" -> new UnhomeNaRequest(name, who);
            default -> throw new IllegalArgumentException("no such operation: " + op);
        };
        request.certify = flags.contains("certify");
        request.cacheCertify = flags.contains("cacheCertify");
        request.authoritative = flags.contains("authoritative");
        request.encrypt = flags.contains("encrypt");
        request.ignoreRestrictedValues = !flags.contains("restricted");
        request.returnRequestDigest = flags.contains("digest");
        request.overwriteWhenExists = flags.contains("overwrite");
        return request;
    }

    private byte[][] types() {
        byte[][] encoded = new byte[types.length][];
        for (int at = 0; at < types.length; at++) {
            encoded[at] = Util.encodeString(types[at]);
        }
        return encoded;
    }

    private AuthenticationInfo who() throws Exception {
        if (as == null) {
            return null;
        }
        ValueReference reference = ValueReference.fromString(as);
        if (secret != null) {
            return new SecretKeyAuthenticationInfo(reference.handle, reference.index, Util.encodeString(secret));
        }
        return new PublicKeyAuthenticationInfo(reference.handle, reference.index, privateKey());
    }

    private PrivateKey privateKey() throws Exception {
        byte[] bytes = Util.decrypt(Files.readAllBytes(Path.of(key)), null);
        return Util.getPrivateKeyFromBytes(bytes, 0);
    }
}
