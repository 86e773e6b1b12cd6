import java.util.HashMap;
import java.util.Map;
import net.handle.hdllib.AbstractRequest;
import net.handle.hdllib.AbstractResponse;
import net.handle.hdllib.ClientSessionTracker;
import net.handle.hdllib.HandleResolver;
import net.handle.hdllib.Interface;
import net.handle.hdllib.ResponseMessageCallback;
import net.handle.hdllib.SessionSetupInfo;
import net.handle.hdllib.SimpleConfiguration;
import net.handle.hdllib.SiteInfo;

/** One resolver per transport and session kind, so that sessions are reused. Not thread-safe. */
final class Transports {
    /** Long enough that no busy server gets a second copy of a request: the client mixes the datagrams of two answers. */
    private static final int[] UDP_TIMEOUTS_MILLIS = {30_000, 30_000};

    private final SiteInfo site;
    private final boolean trace;
    private final Map<String, HandleResolver> resolvers = new HashMap<>();

    Transports(SiteInfo site, boolean trace) {
        this.site = site;
        this.trace = trace;
    }

    AbstractResponse send(ClientRequest input, AbstractRequest request, ResponseMessageCallback parts) throws Exception {
        String key = input.transport + " " + input.session;
        HandleResolver resolver = resolvers.computeIfAbsent(key, absent -> createResolver(input));
        if (input.transport.equals("root")) {
            return resolver.processRequest(request, parts);
        }
        AbstractResponse response = resolver.sendRequestToSite(request, site, protocolCode(input.transport), parts);
        if (response == null) {
            throw new IllegalStateException("site has no " + input.transport + " interface");
        }
        return response;
    }

    private HandleResolver createResolver(ClientRequest input) {
        SimpleConfiguration root = new SimpleConfiguration() {
            @Override
            public boolean isAutoUpdateRootInfo() {
                return false;
            }
        };
        root.setGlobalSites(new SiteInfo[] {site});
        HandleResolver resolver = new HandleResolver();
        resolver.setConfiguration(root);
        resolver.setCache(null);
        resolver.setCertifiedCache(null);
        resolver.setCheckSignatures(true);
        resolver.setUdpRetryScheme(UDP_TIMEOUTS_MILLIS);
        resolver.traceMessages = trace;
        if (!input.transport.equals("root")) {
            resolver.setPreferredProtocols(new int[] {protocolCode(input.transport)});
        }
        if (input.session != null) {
            resolver.setSessionTracker(new ClientSessionTracker(sessionSetup(input.session)));
        }
        return resolver;
    }

    /** Diffie-Hellman key exchange: RSA fails in the client itself. */
    private static SessionSetupInfo sessionSetup(String kind) {
        SessionSetupInfo session = new SessionSetupInfo();
        session.encrypted = kind.contains("encrypted");
        session.authenticated = kind.contains("certified");
        return session;
    }

    private static int protocolCode(String transport) {
        return switch (transport) {
            case "udp" -> Interface.SP_HDL_UDP;
            case "tcp" -> Interface.SP_HDL_TCP;
            case "http" -> Interface.SP_HDL_HTTP;
            case "https" -> Interface.SP_HDL_HTTPS;
            default -> throw new IllegalArgumentException("unknown transport: " + transport);
        };
    }
}
