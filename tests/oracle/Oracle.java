import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * What Iceberg's own code makes of metadata and updates: one JSON request per line in, one JSON answer per line out.
 *
 * <p>A request names its "kind" and is handed to that kind's class; the answer is {"ok": document} or {"error": {"type",
 * "message"}} with the simple name of the Java exception. Iceberg reads the wall clock: where a request carries "now-ms",
 * every "…timestamp-ms" and "last-updated-ms" in the answer that fell between the start and the end of the call is replaced
 * by it, so that answers are repeatable; requests therefore must not carry timestamps near the present.
 */
public final class Oracle {
  private static final Map<String, String> HANDLERS =
      Map.of(
          "table", "TableOracle",
          "create", "TableOracle",
          "parse", "TableOracle",
          "view", "ViewOracle",
          "create-view", "ViewOracle",
          "parse-view", "ViewOracle");

  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Oracle() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err); // whatever a library prints must not stand between the answers
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.print(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
      out.print('\n');
      out.flush();
    }
  }

  private static ObjectNode answer(JsonNode request) throws ReflectiveOperationException {
    String kind = request.path("kind").asText();
    if (!HANDLERS.containsKey(kind)) {
      throw new IllegalStateException("No oracle for requests of kind: " + kind);
    }
    // By name: each oracle may be compiled without the other.
    Method handle = Class.forName(HANDLERS.get(kind)).getDeclaredMethod("handle", JsonNode.class);
    handle.setAccessible(true);
    ObjectNode answer = MAPPER.createObjectNode();
    long startMillis = System.currentTimeMillis();
    try {
      ObjectNode document = (ObjectNode) handle.invoke(null, request);
      if (request.has("now-ms")) {
        replaceWallClock(document, startMillis, System.currentTimeMillis(), request.get("now-ms").asLong());
      }
      answer.set("ok", document);
    } catch (InvocationTargetException wrapper) {
      Throwable refusal = wrapper.getCause();
      if (refusal instanceof Error && !(refusal instanceof StackOverflowError)) {
        throw (Error) refusal; // a broken class path is no refusal
      }
      ObjectNode error = answer.putObject("error");
      error.put("type", refusal.getClass().getSimpleName());
      error.put("message", refusal.getMessage());
    }
    return answer;
  }

  private static void replaceWallClock(JsonNode node, long startMillis, long endMillis, long nowMillis) {
    if (node instanceof ObjectNode) {
      ObjectNode object = (ObjectNode) node;
      List<String> names = new ArrayList<>();
      object.fieldNames().forEachRemaining(names::add);
      for (String name : names) {
        JsonNode value = object.get(name);
        boolean isTime = name.endsWith("timestamp-ms") || name.equals("last-updated-ms");
        if (isTime && value.isIntegralNumber() && value.asLong() >= startMillis && value.asLong() <= endMillis) {
          object.put(name, nowMillis);
        } else {
          replaceWallClock(value, startMillis, endMillis, nowMillis);
        }
      }
    } else if (node instanceof ArrayNode) {
      node.forEach(element -> replaceWallClock(element, startMillis, endMillis, nowMillis));
    }
  }
}
