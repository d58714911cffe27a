import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RetryableValidationException;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequestParser;

/**
 * Table metadata by Iceberg's own builder and parser.
 *
 * <p>"table": {base or null, base-location or null, requirements, updates} in the order of the reference server
 * (CatalogHandlers): parse all, requirements, updates, build. The answer has "changed": false where the reference would write
 * nothing. "create": {table-uuid, location, schema, partition-spec, write-order, properties}. "parse": {document}.
 *
 * <p>The builder accepts updates after which its own parser refuses what it wrote; that is answered as an
 * UnreadableResultException, which Iceberg does not have.
 */
final class TableOracle {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  static {
    // As Iceberg's own RESTObjectMapper, which is not public.
    MAPPER.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
    MAPPER.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    MAPPER.disable(DeserializationFeature.WRAP_EXCEPTIONS);
    MAPPER.setPropertyNamingStrategy(PropertyNamingStrategies.KEBAB_CASE);
    RESTSerializers.registerAll(MAPPER);
  }

  private TableOracle() {}

  static ObjectNode handle(JsonNode request) throws Exception {
    switch (request.get("kind").asText()) {
      case "table":
        return update(request);
      case "create":
        return create(request);
      default:
        return written(TableMetadataParser.fromJson(request.get("document")));
    }
  }

  private static ObjectNode update(JsonNode request) throws IOException {
    UpdateTableRequest commit = UpdateTableRequestParser.fromJson(request);
    TableMetadata base = null;
    if (request.hasNonNull("base")) {
      base = TableMetadataParser.fromJson(request.path("base-location").asText(null), request.get("base"));
    }
    checkCreate(commit);
    for (UpdateRequirement requirement : commit.requirements()) {
      requirement.validate(base);
    }
    TableMetadata updated = base == null ? created(commit) : changed(base, commit);
    ObjectNode answer = MAPPER.createObjectNode();
    answer.put("changed", !updated.changes().isEmpty());
    answer.set("metadata", written(updated));
    return answer;
  }

  private static void checkCreate(UpdateTableRequest commit) {
    List<UpdateRequirement> others =
        commit.requirements().stream()
            .filter(requirement -> !(requirement instanceof UpdateRequirement.AssertTableDoesNotExist))
            .collect(Collectors.toList());
    if (!others.isEmpty() && others.size() < commit.requirements().size()) {
      throw new IllegalArgumentException("Invalid create requirements: " + others);
    }
  }

  private static TableMetadata created(UpdateTableRequest commit) {
    TableMetadata.Builder builder =
        commit.updates().stream()
            .filter(MetadataUpdate.UpgradeFormatVersion.class::isInstance)
            .map(update -> ((MetadataUpdate.UpgradeFormatVersion) update).formatVersion())
            .findFirst()
            .map(TableMetadata::buildFromEmpty)
            .orElseGet(TableMetadata::buildFromEmpty);
    commit.updates().forEach(update -> update.applyTo(builder));
    return builder.build();
  }

  private static TableMetadata changed(TableMetadata base, UpdateTableRequest commit) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    try {
      commit.updates().forEach(update -> update.applyTo(builder));
    } catch (RetryableValidationException stale) {
      throw new CommitFailedException(stale, "Validation failed, please retry: %s", stale.getMessage());
    }
    return builder.build();
  }

  private static ObjectNode create(JsonNode request) throws IOException {
    ObjectNode body = MAPPER.createObjectNode().put("name", "table");
    for (String field : List.of("location", "schema", "partition-spec", "write-order", "properties")) {
      if (request.has(field)) {
        body.set(field, request.get(field));
      }
    }
    CreateTableRequest create = MAPPER.treeToValue(body, CreateTableRequest.class);
    create.validate();
    Schema schema = create.schema();
    PartitionSpec spec = create.spec() != null ? create.spec() : PartitionSpec.unpartitioned();
    SortOrder order = create.writeOrder() != null ? create.writeOrder() : SortOrder.unsorted();
    Map<String, String> properties = new HashMap<>(create.properties());
    ObjectNode document = written(TableMetadata.newTableMetadata(schema, spec, order, create.location(), properties));
    // Drawn at random there, given by the caller here.
    document.set("table-uuid", request.get("table-uuid"));
    return document;
  }

  private static ObjectNode written(TableMetadata metadata) throws IOException {
    ObjectNode document = (ObjectNode) MAPPER.readTree(TableMetadataParser.toJson(metadata));
    try {
      TableMetadataParser.fromJson(document);
    } catch (RuntimeException refusal) {
      throw new UnreadableResultException(refusal.getMessage());
    }
    return document;
  }

  /** What the builder accepted cannot be read back. */
  private static final class UnreadableResultException extends RuntimeException {
    UnreadableResultException(String message) {
      super(message);
    }
  }
}
