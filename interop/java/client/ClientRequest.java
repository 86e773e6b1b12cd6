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

/** One input line; JSON keys are the field names. */
final class ClientRequest {
    /** Returned with the response. */
    Integer id;
    /** Which of the servers in the arguments. */
    int server;
    /** Requests of one group are sent one after another, groups side by side. */
    String group = "";
    String op;
    String handle = "";
    HandleValue[] values = {};
    int[] indexes = {};
    String[] types = {};
    /** udp, tcp, http, https; or root: the responsible site is looked up from the root, which is the server. */
    String transport = "tcp";
    /** Identity of the administrator: `300:0.NA/10.5555`. */
    String admin;
    String secret;
    /** Private key file. */
    String key;
    /** plain, encrypted, certified, or `encrypted certified`; null for no session. */
    String session;
    /** certify, cacheCertify, authoritative, encrypt, restricted, digest, overwrite. */
    List<String> flags = List.of();

    AbstractRequest toRequest() throws Exception {
        byte[] name = Util.encodeString(handle);
        AuthenticationInfo authentication = authentication();
        AbstractRequest request = switch (op) {
            case "site" -> new GenericRequest(Common.BLANK_HANDLE, AbstractMessage.OC_GET_SITE_INFO, authentication);
            case "resolve" -> new ResolutionRequest(name, types(), indexes, authentication);
            case "create" -> new CreateHandleRequest(name, values, authentication);
            case "delete" -> new DeleteHandleRequest(name, authentication);
            case "add" -> new AddValueRequest(name, values, authentication);
            case "modify" -> new ModifyValueRequest(name, values, authentication);
            case "remove" -> new RemoveValueRequest(name, indexes, authentication);
            case "list" -> new ListHandlesRequest(name, authentication);
            case "prefixes" -> new ListNAsRequest(name, authentication);
            case "home" -> new HomeNaRequest(name, authentication);
            case "unhome" -> new UnhomeNaRequest(name, authentication);
            default -> throw new IllegalArgumentException("unknown operation: " + op);
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
        for (int index = 0; index < types.length; index++) {
            encoded[index] = Util.encodeString(types[index]);
        }
        return encoded;
    }

    private AuthenticationInfo authentication() throws Exception {
        if (admin == null) {
            return null;
        }
        ValueReference reference = ValueReference.fromString(admin);
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
