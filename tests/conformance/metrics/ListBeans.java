import java.lang.management.ManagementFactory;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints the metrics of a Java process, one a line: domain, type, name, and the other keys, tabs between them. Where a
 *  bean has no name, its attributes are the names. */
public class ListBeans {
    public static void main(String[] arguments) throws Exception {
        var url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            for (ObjectName bean : beans.queryNames(new ObjectName("kafka.*:*"), null)) {
                var keys = new TreeSet<>(bean.getKeyPropertyList().keySet());
                keys.remove("type");
                String name = bean.getKeyProperty("name");
                if (name != null) {
                    keys.remove("name");
                    print(bean, name, keys);
                    continue;
                }
                for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
                    print(bean, attribute.getName(), keys);
                }
            }
        }
    }

    private static void print(ObjectName bean, String name, TreeSet<String> keys) {
        System.out.println(
            bean.getDomain() + "\t" + bean.getKeyProperty("type") + "\t" + name + "\t" + String.join(",", keys));
    }
}
