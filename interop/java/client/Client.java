import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
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
import net.handle.hdllib.ListHandlesResponse;
import net.handle.hdllib.ListNAsResponse;
import net.handle.hdllib.ResolutionResponse;
import net.handle.hdllib.ServiceReferralResponse;
import net.handle.hdllib.SiteInfo;
import net.handle.hdllib.Util;

/** Has the client of Handle.Net ask a server: a question a line in, as JSON, and what came of it a line out. */
final class Client {
    private static final Gson JSON = GsonUtility.getGson();

    public static void main(String[] arguments) throws Exception {
        boolean trace = arguments.length > 0 && arguments[arguments.length - 1].equals("--trace");
        int count = arguments.length - (trace ? 1 : 0);
        if (count < 2 || count > 3) {
            System.err.println("usage: Client ADDRESS NATIVE-PORT [HTTPS-PORT] [--trace]");
            System.exit(2);
        }
        InetAddress address = InetAddress.getByName(arguments[0]);
        SiteInfo site = site(address, Integer.parseInt(arguments[1]));
        Ways ways = new Ways(site, count == 3 ? Integer.parseInt(arguments[2]) : 0, trace);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            out.println(JSON.toJson(ask(ways, JSON.fromJson(line, Question.class))));
        }
    }

    /** What the server says of itself. */
    private static SiteInfo site(InetAddress address, int port) throws HandleException {
        GenericRequest request = new GenericRequest(Common.BLANK_HANDLE, AbstractMessage.OC_GET_SITE_INFO, null);
        AbstractResponse response = new HandleResolver().sendHdlTcpRequest(request, address, port);
        return ((GetSiteInfoResponse) response).siteInfo;
    }

    private static JsonObject ask(Ways ways, Question question) {
        JsonObject answer = new JsonObject();
        answer.addProperty("op", question.op);
        try {
            AbstractRequest request = question.request();
            // Long lists come in parts, each of them a message.
            List<AbstractResponse> parts = new ArrayList<>();
            AbstractResponse response = ways.send(question, request, parts::add);
            if (parts.isEmpty()) {
                parts.add(response);
            }
            answer.addProperty("code", response.responseCode);
            for (AbstractResponse part : parts) {
                tell(part, answer);
            }
        } catch (Exception failure) {
            answer.addProperty("error", describe(failure));
        }
        return answer;
    }

    private static void tell(AbstractResponse response, JsonObject answer) throws HandleException {
        if (response instanceof ResolutionResponse resolved) {
            answer.addProperty("handle", Util.decodeString(resolved.handle));
            answer.add("values", JSON.toJsonTree(resolved.getHandleValues()));
        } else if (response instanceof ServiceReferralResponse referral) {
            answer.addProperty("handle", Util.decodeString(referral.handle));
            answer.add("values", JSON.toJsonTree(referral.getHandleValues()));
        } else if (response instanceof CreateHandleResponse created && created.handle != null) {
            answer.addProperty("handle", Util.decodeString(created.handle));
        } else if (response instanceof ListHandlesResponse list) {
            names(list.handles, answer);
        } else if (response instanceof ListNAsResponse list) {
            names(list.handles, answer);
        } else if (response instanceof GetSiteInfoResponse about) {
            answer.add("site", JSON.toJsonTree(about.siteInfo));
        } else if (response instanceof ErrorResponse error) {
            answer.addProperty("message", error.message == null ? "" : Util.decodeString(error.message));
        }
    }

    private static void names(byte[][] handles, JsonObject answer) {
        if (!answer.has("names")) {
            answer.add("names", new JsonArray());
        }
        for (byte[] handle : handles) {
            answer.getAsJsonArray("names").add(Util.decodeString(handle));
        }
    }

    /** The exception and all its causes, in one line. */
    private static String describe(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            text.append(text.isEmpty() ? "" : ": ").append(cause);
        }
        return text.toString();
    }
}
