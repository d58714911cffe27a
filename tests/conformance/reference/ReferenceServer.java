import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's own REST adapter over a JdbcCatalog, on 127.0.0.1 only: the peer that shows whether a suite's set-up is right.
 *
 * <p>Arguments: port, warehouse URI, then catalog properties as key=value.
 */
public final class ReferenceServer {
  private ReferenceServer() {}

  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("uri", "jdbc:sqlite::memory:");
    properties.put("jdbc.schema-version", "V1");
    properties.put("jdbc.strict-mode", "true");
    properties.put("warehouse", arguments[1]);
    for (int i = 2; i < arguments.length; i++) {
      String[] property = arguments[i].split("=", 2);
      properties.put(property[0], property[1]);
    }
    Catalog catalog = CatalogUtil.buildIcebergCatalog("reference", properties, new Configuration());
    ServletContextHandler handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    server.setHandler(handler);
    server.start();
    server.join();
  }
}
