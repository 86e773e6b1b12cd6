import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
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

/** The ways to the server: a resolver for each transport and kind of session, so that sessions are used again. */
final class Ways {
    private final SiteInfo site;
    private final boolean trace;
    private final Map<String, HandleResolver> resolvers = new HashMap<>();

    Ways(SiteInfo site, int httpsPort, boolean trace) {
        this.site = site;
        this.trace = trace;
        if (httpsPort > 0) {
            List<Interface> doors = new ArrayList<>(List.of(site.servers[0].interfaces));
            doors.add(new Interface(Interface.ST_ADMIN_AND_QUERY, Interface.SP_HDL_HTTPS, httpsPort));
            site.servers[0].interfaces = doors.toArray(new Interface[0]);
        }
    }

    AbstractResponse send(Question question, AbstractRequest request, ResponseMessageCallback parts) throws Exception {
        String way = question.via + " " + question.session;
        if (!resolvers.containsKey(way)) {
            resolvers.put(way, resolver(question));
        }
        HandleResolver resolver = resolvers.get(way);
        if (question.via.equals("root")) {
            return resolver.processRequest(request, parts);
        }
        AbstractResponse response = resolver.sendRequestToSite(request, site, protocol(question.via), parts);
        if (response == null) {
            throw new IllegalStateException("the site has no " + question.via);
        }
        return response;
    }

    private HandleResolver resolver(Question question) {
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
        resolver.traceMessages = trace;
        if (!question.via.equals("root")) {
            resolver.setPreferredProtocols(new int[] {protocol(question.via)});
        }
        if (question.session != null) {
            resolver.setSessionTracker(new ClientSessionTracker(session(question.session)));
        }
        return resolver;
    }

    /** With a key of Diffie-Hellman: the others, by RSA, fail in the client itself. */
    private static SessionSetupInfo session(String kind) {
        SessionSetupInfo session = new SessionSetupInfo();
        session.encrypted = kind.contains("encrypted");
        session.authenticated = kind.contains("certified");
        return session;
    }

    private static int protocol(String via) {
        return switch (via) {
            case "udp" -> Interface.SP_HDL_UDP;
            case "tcp" -> Interface.SP_HDL_TCP;
            case "http" -> Interface.SP_HDL_HTTP;
            case "https" -> Interface.SP_HDL_HTTPS;
            default -> throw new IllegalArgumentException("no such way: " + via);
        };
    }
}
