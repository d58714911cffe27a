import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.MetadataUpdateParser;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.UpdateRequirementParser;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.requests.CreateViewRequest;
import org.apache.iceberg.rest.requests.CreateViewRequestParser;
import org.apache.iceberg.view.ViewMetadata;
import org.apache.iceberg.view.ViewMetadataParser;

/**
 * View metadata by Iceberg's own builder, parser and catalog handler.
 *
 * <p>"view": {base or null, requirements, updates} in the order of the reference server: parse all, requirements, updates,
 * build. The answer has "changed": false where the reference would write nothing. "create-view": {view-uuid, location,
 * schema, view-version, properties}. "parse-view": {document}.
 *
 * <p>The builder and the parser accept a current version or schema that is not there and fail at its first use; here that
 * first use follows at once.
 */
final class ViewOracle {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private ViewOracle() {}

  static ObjectNode handle(JsonNode request) throws IOException {
    switch (request.get("kind").asText()) {
      case "view":
        return update(request);
      case "create-view":
        return create(request);
      default:
        return written(ViewMetadataParser.fromJson(request.get("document")));
    }
  }

  private static ObjectNode update(JsonNode request) throws IOException {
    List<UpdateRequirement> requirements = new ArrayList<>();
    request.path("requirements").forEach(node -> requirements.add(UpdateRequirementParser.fromJson(node)));
    List<MetadataUpdate> updates = new ArrayList<>();
    request.path("updates").forEach(node -> updates.add(MetadataUpdateParser.fromJson(node)));

    ViewMetadata.Builder builder = ViewMetadata.builder();
    if (request.hasNonNull("base")) {
      ViewMetadata base = ViewMetadataParser.fromJson(request.get("base"));
      requirements.forEach(requirement -> requirement.validate(base));
      builder = ViewMetadata.buildFrom(base);
    }
    for (MetadataUpdate update : updates) {
      update.applyTo(builder);
    }
    ViewMetadata updated = builder.build();
    ObjectNode answer = MAPPER.createObjectNode();
    answer.put("changed", !updated.changes().isEmpty());
    answer.set("metadata", written(updated));
    return answer;
  }

  private static ObjectNode create(JsonNode request) throws IOException {
    ObjectNode body = MAPPER.createObjectNode().put("name", "view");
    for (String field : List.of("location", "schema", "view-version", "properties")) {
      if (request.has(field)) {
        body.set(field, request.get(field));
      }
    }
    CreateViewRequest create = CreateViewRequestParser.fromJson(body);
    try (InMemoryCatalog catalog = new InMemoryCatalog()) {
      catalog.initialize("oracle", Map.of(CatalogProperties.WAREHOUSE_LOCATION, "memory:/warehouse"));
      Namespace namespace = Namespace.of("ns");
      catalog.createNamespace(namespace);
      ObjectNode document = written(CatalogHandlers.createView(catalog, namespace, create).metadata());
      // Drawn at random there, given by the caller here.
      document.set("view-uuid", request.get("view-uuid"));
      // The reference puts its own process's environment in place of what the client said of itself.
      ((ObjectNode) document.get("versions").get(0)).set("summary", request.get("view-version").get("summary"));
      return document;
    }
  }

  private static ObjectNode written(ViewMetadata metadata) throws IOException {
    metadata.currentSchemaId(); // uses the current version and its schema
    return (ObjectNode) MAPPER.readTree(ViewMetadataParser.toJson(metadata));
  }
}
