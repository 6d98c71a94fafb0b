"""SQL of a spec names no file, URL, host or class. The check finds such names before Spark analyzes the SQL (fault S2).

These tests use Spark's classes without a session: no SQL is analyzed or run.
"""

from __future__ import annotations

import http.server
import threading

import py4j.java_gateway
import pytest
from py4j.protocol import Py4JJavaError, get_return_value
from support.java.alone import java
from support.repository import ROOT
from support.tables.expressions import ORDINARY

from backfill_spark.jvm.session import OF_STORES
from backfill_spark.rows.sql.reach import CALLS, EXTERNAL, OPTIONS, READERS, outside

FUNCTIONS = ROOT / "build-tools" / "reach" / "functions.txt"
"""Each function of Spark 4.2 with a decision; those of `READERS` and `CALLS` take options, files or classes."""

OBJECTS = {"json": "json.JSONOptions", "csv": "csv.CSVOptions", "xml": "xml.XmlOptions"}
DOCTYPE = '<!DOCTYPE a SYSTEM "{url}/dtd"><a>1</a>'


@pytest.fixture(autouse=True)
def errors_as_they_are(monkeypatch):
    """Without this, pyspark would treat each error of Java as one of the suite's session, and ask that JVM about its object."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", get_return_value)


@pytest.fixture(scope="module")
def parser(java_alone):
    return java_alone.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()


@pytest.fixture
def web():
    """Give the address of a web server, and the list of its requests."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", requests
    server.shutdown()
    server.server_close()


class TestAText:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("from_xml(s, 'a INT', map('rowValidationXSDPath', 'http://h/x')) AS x", "'rowValidationXSDPath' of XML, which may name a file"),
            ("schema_of_xml('<a/>', map('ROWVALIDATIONXSDPATH', '/x'))", "option 'ROWVALIDATIONXSDPATH'"),
            ("from_avro(s, '\"int\"', map('mode', 'FAILFAST', 'avroSchemaUrl', 'file:/x'))", "option 'avroSchemaUrl' of AVRO"),
            ("transform(a, x -> FROM_AVRO(x, '1', map('avroSchemaUrl', 'file:/x')))", "'avroSchemaUrl'"),
            ("system.builtin.from_avro(s, '1', map('avroSchemaUrl', 'file:/x'))", "'avroSchemaUrl'"),
            ("named_struct('a', `from_avro`(s, '1', map('avroSchemaUrl', 'file:/x'))).a", "'avroSchemaUrl'"),
            ("from_avro(s, '1', map(concat('avroSchema', 'Url'), 'file:/x'))", "computes the options of AVRO"),
            ("from_avro(s, '1', str_to_map('avroSchemaUrl:file'))", "computes the schema or the options of AVRO"),
            ("from_avro(s, '1', map_concat(map('avroSchemaUrl', 'x')))", "computes the schema or the options"),
            ("from_avro(s, '1', from_json('{}', 'map<string,string>'))", "computes the schema or the options"),
            ("from_avro(s, options => map('avroSchemaUrl', 'x'))", "names the arguments"),
            ("from_json(s, 'a INT', map('later', 'x'))", "'later' of JSON, which is not known to concern one row only"),
            ("from_protobuf(b, 'm', '/etc/hostname')", "reads a file of descriptors (from_protobuf)"),
            ("reflect('java.lang.System', 'getenv', 'HOME')", "calls Java (reflect)"),
            ("try_reflect('a.B', 'c')", "calls Java"),
            ("(SELECT max(value) FROM text.`/etc/hostname`)", "has a subquery"),
            ("s IN (SELECT value FROM json.`http://h/x`)", "has a subquery"),
            ("EXISTS(SELECT 1 FROM csv.`/x`)", "has a subquery"),
            ("coalesce(s, (SELECT first(value) FROM text.`/x`))", "has a subquery"),
            ("IDENTIFIER('from_xml')(s, 'a INT')", "IDENTIFIER"),
        ],
    )  # fmt: skip
    def test_sql_that_reaches_further_is_refused(self, parser, text, message):
        """Spark reads some of these while it analyzes, and repeats their content in its error."""
        refusal = outside(parser, text)

        assert refusal is not None
        assert message in refusal[0]
        assert refusal[1]

    @pytest.mark.parametrize(
        "text",
        [
            "*", "id", "from_json(s, 'a INT')", "from_json(s, 'a INT', map('mode', 'FAILFAST', 'timestampFormat', 'yyyy'))",
            "from_json(s, schema_of_json('{\"a\": 1}'))", "from_csv(s, 'a INT', map('SEP', ';'))", "to_json(map('a', id))",
            "to_json(struct(*), map('ignoreNullFields', 'false'))", "to_csv(struct(id), map('sep', ';'))",
            "from_avro(b, concat('{\"type\":', '\"int\"}'), map('mode', 'PERMISSIVE'))", "to_avro(s, '\"int\"')",
            "from_xml(s, 'a INT', map('rowTag', 'b'))", "xpath_string(s, 'a')", "schema_of_csv('1,a')", "not SQL at all (",
        ],
    )  # fmt: skip
    def test_sql_of_one_row_passes(self, parser, text):
        """A check that refuses ordinary SQL is useless."""
        assert outside(parser, text) is None

    def test_ordinary_sql_passes(self, parser):
        """It includes all SQL that the transform's own suite accepts."""
        assert [refusal for text in ORDINARY if (refusal := outside(parser, text)) is not None] == []


class TestSpark:
    def test_each_function_of_spark_has_a_decision(self, java_alone):
        """A new one may take a file, a URL, or options with one: decide, then add it to `functions.txt`, `READERS` or `CALLS`."""
        listed = (
            java_alone.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin().listFunction().mkString("\n")
        )
        names = {name.removeprefix("system.builtin.") for name in listed.split("\n")}

        assert sorted(names ^ set(FUNCTIONS.read_text().split())) == []
        assert names >= READERS | set(CALLS) - {"schema_of_protobuf"}

    def test_only_listed_functions_take_a_map_of_options(self, java_alone):
        """The types of the arguments of its class show that a function takes a map."""
        registry = java_alone.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
        names = set()
        for name in FUNCTIONS.read_text().split():
            function = registry.lookupFunction(java_alone.org.apache.spark.sql.catalyst.FunctionIdentifier(name)).get()
            constructors = java_alone.java.lang.Class.forName(function.getClassName()).getConstructors()
            types = [str(parameter.getName()) for made in constructors for parameter in made.getParameterTypes()]
            names |= {name} if any("immutable.Map" in kind for kind in types) else set()

        assert names <= READERS

    @pytest.mark.parametrize("form", OBJECTS)
    def test_each_option_of_spark_has_a_decision(self, java_alone, form):
        """An option that names a file belongs to `EXTERNAL`."""
        options = getattr(java_alone.org.apache.spark.sql.catalyst, form)
        names = getattr(options, OBJECTS[form].partition(".")[2]).getAllOptions().mkString("\n").lower().split("\n")

        assert sorted(set(names) - OPTIONS[form] - EXTERNAL[form]) == []


class TestJava:
    def test_java_of_a_session_follows_no_name_in_xml(self, java_alone, web):
        """A document in a row names an entity. Without the product's options Java requests it from the server."""
        url, requests = web
        with pytest.raises(Py4JJavaError):
            java_alone.org.apache.spark.sql.catalyst.expressions.xml.UDFXPathUtil().evalString(
                DOCTYPE.format(url=url), "a"
            )
        schema = f'<!DOCTYPE x SYSTEM "{url}/dtd"><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"/>'
        factory = java_alone.javax.xml.validation.SchemaFactory.newInstance("http://www.w3.org/2001/XMLSchema")
        with pytest.raises(Py4JJavaError):
            factory.newSchema(
                java_alone.javax.xml.transform.stream.StreamSource(java_alone.java.io.StringReader(schema))
            )

        assert requests == []

    @pytest.mark.parametrize("scheme", ["http", "https", "ftp", "sftp"])
    def test_java_of_a_session_reads_from_no_web_server(self, java_alone, web, scheme):
        """Hadoop has file systems for them."""
        url, requests = web
        conf = java_alone.org.apache.hadoop.conf.Configuration(False)
        for name, value in OF_STORES.items():
            conf.set(name, value)
        path = java_alone.org.apache.hadoop.fs.Path(url.replace("http", scheme, 1) + "/x")
        with pytest.raises(Py4JJavaError, match=r"switched\.off\.by\.backfill"):
            path.getFileSystem(conf)

        assert requests == []

    def test_java_without_the_options_asks_the_server(self, web):
        """Otherwise the tests above prove nothing."""
        url, requests = web
        gateway = java()
        try:
            gateway.jvm.org.apache.spark.sql.catalyst.expressions.xml.UDFXPathUtil().evalString(
                DOCTYPE.format(url=url), "a"
            )
        except Py4JJavaError:
            pass
        finally:
            gateway.shutdown()

        assert requests == ["/dtd"]
