import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import net.handle.hdllib.AbstractMessage;
import net.handle.hdllib.AbstractRequest;
import net.handle.hdllib.AbstractResponse;
import net.handle.hdllib.Common;
import net.handle.hdllib.CreateHandleResponse;
import net.handle.hdllib.ErrorResponse;
import net.handle.hdllib.GenericRequest;
import net.handle.hdllib.GetSiteInfoResponse;
import net.handle.hdllib.GsonUtility;
import net.handle.hdllib.HandleException;
import net.handle.hdllib.HandleResolver;
import net.handle.hdllib.Interface;
import net.handle.hdllib.ListHandlesResponse;
import net.handle.hdllib.ListNAsResponse;
import net.handle.hdllib.ResolutionResponse;
import net.handle.hdllib.ServiceReferralResponse;
import net.handle.hdllib.SiteInfo;
import net.handle.hdllib.Util;

/**
 * Sends JSON requests from stdin with the Handle.Net client and prints JSON responses, one per line.
 *
 * <p>Requests of one server and group are sent one after another; different groups run side by side in threads.
 */
final class HandleNetClient {
    private static final Gson JSON = GsonUtility.getGson();
    private static final String USAGE = "usage: HandleNetClient ADDRESS:PORT[:HTTPS-PORT]... [--trace]";

    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final List<String> servers;
    private final boolean trace;
    private final Map<String, ExecutorService> groups = new HashMap<>();

    private HandleNetClient(List<String> servers, boolean trace) {
        this.servers = servers;
        this.trace = trace;
    }

    public static void main(String[] arguments) throws Exception {
        List<String> servers = new ArrayList<>(List.of(arguments));
        boolean trace = servers.remove("--trace");
        if (servers.isEmpty()) {
            System.err.println(USAGE);
            System.exit(2);
        }
        new HandleNetClient(servers, trace).run();
    }

    private void run() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Transports> transports = new HashMap<>();
        for (String line; (line = lines.readLine()) != null; ) {
            ClientRequest request = JSON.fromJson(line, ClientRequest.class);
            String group = request.server + " " + request.group;
            if (!transports.containsKey(group)) {
                transports.put(group, new Transports(fetchSite(servers.get(request.server)), trace));
                groups.put(group, Executors.newSingleThreadExecutor());
            }
            Transports groupTransports = transports.get(group);
            groups.get(group).execute(() -> out.println(JSON.toJson(execute(groupTransports, request))));
        }
        groups.values().forEach(ExecutorService::shutdown);
    }

    /** Site record that the server at ADDRESS:PORT[:HTTPS-PORT] returns, with the HTTPS port if there is one. */
    private static SiteInfo fetchSite(String server) throws Exception {
        String[] parts = server.split(":");
        GenericRequest request = new GenericRequest(Common.BLANK_HANDLE, AbstractMessage.OC_GET_SITE_INFO, null);
        AbstractResponse response = new HandleResolver()
                .sendHdlTcpRequest(request, InetAddress.getByName(parts[0]), Integer.parseInt(parts[1]));
        SiteInfo site = ((GetSiteInfoResponse) response).siteInfo;
        if (parts.length > 2) {
            List<Interface> interfaces = new ArrayList<>(List.of(site.servers[0].interfaces));
            int port = Integer.parseInt(parts[2]);
            interfaces.add(new Interface(Interface.ST_ADMIN_AND_QUERY, Interface.SP_HDL_HTTPS, port));
            site.servers[0].interfaces = interfaces.toArray(new Interface[0]);
        }
        return site;
    }

    private static JsonObject execute(Transports transports, ClientRequest input) {
        JsonObject output = new JsonObject();
        output.addProperty("id", input.id);
        output.addProperty("op", input.op);
        try {
            AbstractRequest request = input.toRequest();
            // Long lists come in several messages.
            List<AbstractResponse> parts = new ArrayList<>();
            AbstractResponse response = transports.send(input, request, parts::add);
            if (parts.isEmpty()) {
                parts.add(response);
            }
            output.addProperty("code", response.responseCode);
            for (AbstractResponse part : parts) {
                addResponse(part, output);
            }
        } catch (Exception failure) {
            output.addProperty("error", causeChain(failure));
        }
        return output;
    }

    private static void addResponse(AbstractResponse response, JsonObject output) throws HandleException {
        if (response instanceof ResolutionResponse resolved) {
            output.addProperty("handle", Util.decodeString(resolved.handle));
            output.add("values", JSON.toJsonTree(resolved.getHandleValues()));
        } else if (response instanceof ServiceReferralResponse referral) {
            output.addProperty("handle", Util.decodeString(referral.handle));
            output.add("values", JSON.toJsonTree(referral.getHandleValues()));
        } else if (response instanceof CreateHandleResponse created && created.handle != null) {
            output.addProperty("handle", Util.decodeString(created.handle));
        } else if (response instanceof ListHandlesResponse list) {
            addHandles(list.handles, output);
        } else if (response instanceof ListNAsResponse list) {
            addHandles(list.handles, output);
        } else if (response instanceof GetSiteInfoResponse siteInfo) {
            output.add("site", JSON.toJsonTree(siteInfo.siteInfo));
        } else if (response instanceof ErrorResponse error) {
            output.addProperty("message", error.message == null ? "" : Util.decodeString(error.message));
        }
    }

    private static void addHandles(byte[][] handles, JsonObject output) {
        if (!output.has("names")) {
            output.add("names", new JsonArray());
        }
        for (byte[] handle : handles) {
            output.getAsJsonArray("names").add(Util.decodeString(handle));
        }
    }

    /** Exception and all its causes, in one line. */
    private static String causeChain(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            text.append(text.isEmpty() ? "" : ": ").append(cause);
        }
        return text.toString();
    }
}
