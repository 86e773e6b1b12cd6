import java.net.InetAddress;
import net.handle.hdllib.AbstractMessage;
import net.handle.hdllib.Common;
import net.handle.hdllib.Configuration;
import net.handle.hdllib.GenericRequest;
import net.handle.hdllib.GetSiteInfoResponse;
import net.handle.hdllib.HandleResolver;
import net.handle.hdllib.SiteInfo;

/** Sends the requests of Handle.Net's programs for one prefix to one server. */
final class LocalSite {
    private LocalSite() {
    }

    /** Makes the server at ADDRESS:PORT the only one that is asked for names of a prefix. */
    static void use(String server, String prefix) throws Exception {
        String[] parts = server.split(":");
        GenericRequest request = new GenericRequest(Common.BLANK_HANDLE, AbstractMessage.OC_GET_SITE_INFO, null);
        SiteInfo site = ((GetSiteInfoResponse) new HandleResolver()
                .sendHdlTcpRequest(request, InetAddress.getByName(parts[0]), Integer.parseInt(parts[1]))).siteInfo;
        Configuration.defaultConfiguration().setLocalSites("0.NA/" + prefix, new SiteInfo[] {site});
    }
}
