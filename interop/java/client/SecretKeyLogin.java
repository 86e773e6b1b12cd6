import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import net.handle.api.HSAdapterFactory;
import net.handle.hdllib.AbstractMessage;
import net.handle.hdllib.Common;
import net.handle.hdllib.Configuration;
import net.handle.hdllib.GenericRequest;
import net.handle.hdllib.GetSiteInfoResponse;
import net.handle.hdllib.HandleException;
import net.handle.hdllib.HandleResolver;
import net.handle.hdllib.SiteInfo;

/** Logs in with a secret key, as programs with Handle.Net's adapter and its administration tool do. */
final class SecretKeyLogin {
    private SecretKeyLogin() {
    }

    /** Prints whether the server at ADDRESS:PORT accepts the secret of INDEX:PREFIX/SUFFIX. */
    public static void main(String[] arguments) throws Exception {
        String[] server = arguments[0].split(":");
        String[] key = arguments[1].split(":", 2);
        GenericRequest request = new GenericRequest(Common.BLANK_HANDLE, AbstractMessage.OC_GET_SITE_INFO, null);
        SiteInfo site = ((GetSiteInfoResponse) new HandleResolver()
                .sendHdlTcpRequest(request, InetAddress.getByName(server[0]), Integer.parseInt(server[1]))).siteInfo;
        String prefix = key[1].substring(0, key[1].indexOf('/'));
        Configuration.defaultConfiguration().setLocalSites("0.NA/" + prefix, new SiteInfo[] {site});
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
