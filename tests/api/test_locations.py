"""How the location of a table is written: each text has one meaning, or is refused with a hint."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from backfill_api.crd import schema
from backfill_api.crd.explain import LOOKED_AT_CHARACTERS_MAX, shown
from backfill_api.load import SpecError, load_backfill
from backfill_api.spec.locations import PlaceError, place, without_user


class TestOneMeaning:
    """Spark, Hadoop and users write one location in several ways."""

    @pytest.mark.parametrize(
        "text", ["file:/lake/x", "file:///lake/x", "FILE:/lake//x/", "file:////lake/x", "file:///lake/x///"]
    )
    def test_of_a_local_uri(self, text):
        """Most users write a plain path, which must stay as it is."""
        assert (place(text).path, place(text).is_local) == ("/lake/x", True)

    @pytest.mark.parametrize("text", ["/lake/x", "//lake/x", "/lake//x/"])
    def test_of_a_plain_path(self, text):
        """Two slashes at the start of a path do not name a host, though URIs read them so."""
        assert place(text).path == "/lake/x"

    @pytest.mark.parametrize("text", ["lake/x", "./lake:x/y", "~/x", ".", "..", "/a/b:c"])
    def test_what_the_machine_resolves_stays(self, text):
        """A local path keeps its form; the machine that runs the job resolves it."""
        assert (place(text).scheme, place(text).path) == ("", text)

    @pytest.mark.parametrize("text", ["lake/x", "./x", "~/x", ".", ".."])
    def test_of_every_machine_is_an_absolute_one(self, text):
        """A pod has no folder of its user's, and no home."""
        assert not place(text).is_absolute
        assert all(place(one).is_absolute for one in ("/x", "file:/x", "s3a://b/x", "s3a://b", "hdfs:/x"))

    @pytest.mark.parametrize("text", ["/a b%41ü", "/a%20b", "/a?b#c"])
    def test_a_percent_sign_is_one(self, text):
        """Spark decodes no percent signs in paths, so neither may we: it would be another table."""
        assert place(text).path == text
        assert place(f"file://{text}").path == text

    @pytest.mark.parametrize(
        ("text", "uri"),
        [
            ("s3a://b/x/", "s3a://b/x"),
            ("S3A://b//x", "s3a://b/x"),
            ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
            ("hdfs:/x", "hdfs:///x"),
            ("dbfs:/x", "dbfs:///x"),
            ("s3a://b", "s3a://b/"),
        ],
    )
    def test_of_a_uri(self, text, uri):
        """Two spellings of one location must not make two jobs."""
        assert place(text).uri == uri


REFUSED = {
    "file:x": "write file:/",
    "a:b/c": r"\./a:b/c",
    "file://lake/x": "write file:///lake/x",
    "s3a:/b/x": "write s3a://b/x",
    "s3:": "write s3://bucket/folder",
    "http://a/b": "object store",
    " /x": "remove it",
    "/x\n": "remove it",
    "/x\0y": "remove it",
}


class TestNoPlace:
    """A text without a meaning is refused before a driver starts."""

    @pytest.mark.parametrize(("text", "hint"), REFUSED.items(), ids=map(repr, REFUSED))
    def test_is_refused_with_a_hint(self, text, hint):
        """The user must learn how to write the location that was meant."""
        with pytest.raises(PlaceError) as refusal:
            place(text)
        assert re.search(hint, refusal.value.hint)

    @pytest.mark.parametrize("field", ["source", "target"])
    def test_a_spec_names_the_field(self, field):
        """A spec has two places, so the error says which one is wrong."""
        paths = {"source": "/a", "target": "/b"} | {field: "file:lake"}
        document = {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "j"},
            "spec": {
                end: {"type": "Delta", "delta": {"path": path} | ({"key": ["id"]} if end == "source" else {})}
                for end, path in paths.items()
            },
        }
        with pytest.raises(SpecError, match=rf'spec\.{field}\.delta\.path: .*"file:lake"'):
            load_backfill(document)


class TestASchemeOfAnotherTool:
    """Spark has no file system for it, or another one: `validate` called it valid, and `plan` refused it after five seconds (fault U6)."""

    FOREIGN = {
        "s3://lake/orders": "write s3a://lake/orders",
        "S3N://lake//orders/": "write s3a://lake/orders",
        "gcs://lake/orders": "write gs://lake/orders",
        "az://lake/orders": "write abfss://container@account.dfs.core.windows.net/path",
    }

    @pytest.mark.parametrize(("text", "hint"), FOREIGN.items())
    @pytest.mark.parametrize("field", ["source.delta.path", "target.delta.path", "source.kafka.quarantinePath"])
    def test_is_refused_with_the_scheme_to_write(self, text, hint, field):
        """The error names field, value and remedy before Spark starts."""
        kafka = {"bootstrapServers": "b:1", "topic": "t", "onBadRecord": "Quarantine", "quarantinePath": "/bad"}
        spec = {
            "source": {"type": "Kafka", "kafka": kafka}
            if "kafka" in field
            else {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}},
            "target": {"type": "Delta", "delta": {"path": "/b"}},
            "strategy": {"type": "SourceSplits" if "kafka" in field else "Snapshot"},
        }
        end, member, name = field.split(".")
        spec[end][member][name] = text
        document = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "a"}, "spec": spec}

        with pytest.raises(SpecError) as refusal:
            load_backfill(document)

        (error,) = refusal.value.errors
        assert (error.path, error.hint) == (f"spec.{field}", hint)
        assert text in str(error)

    @pytest.mark.parametrize("text", FOREIGN)
    def test_is_refused_at_admission(self, text):
        """The CRD's rules say the same as the model, for each field with a location."""
        crd = yaml.safe_load(schema.CRD_FILE.read_text(encoding="utf-8"))
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        for end, member, field in (
            ("source", "delta", "path"),
            ("target", "delta", "path"),
            ("source", "kafka", "quarantinePath"),
        ):
            rules = spec[end]["properties"][member]["x-kubernetes-validations"]
            patterns = [
                (found[1], rule["message"])
                for rule in rules
                if (
                    found := re.fullmatch(
                        rf"!has\(self\.{field}\) \|\| !self\.{field}\.matches\('(.*)'\)", rule["rule"]
                    )
                )
            ]
            refused = [message for pattern, message in patterns if re.match(pattern, text) and "write" in message]
            assert len(refused) == 1, (end, member, patterns)
            assert not [one for one, message in patterns if re.match(one, "s3a://lake/orders") and "write" in message]

    def test_names_a_folder_where_a_catalog_says_so(self):
        """A table of a catalog lies where the catalog says: its session has the file system."""
        assert place("s3://lake/orders").uri == "s3://lake/orders"


class TestATable:
    """A name of a catalog is no location, and no location passes for a name."""

    @pytest.mark.parametrize("member", ["source", "target"])
    @pytest.mark.parametrize(
        "table", ["delta.`/tmp/orders`", "delta.`s3a://KEY:SECRET@bucket/a`", "parquet.`orders/a`"]
    )
    def test_refuses_a_path_in_the_form_of_a_name(self, member, table):
        """On a cluster the path passed the checks of a folder that goes with its pod (fault S10)."""
        places = {"source": {"path": "/a", "key": ["id"]}, "target": {"path": "/b"}}
        places[member] = {**places[member], "table": table}
        del places[member]["path"]
        spec = {name: {"type": "Delta", "delta": place} for name, place in places.items()}
        with pytest.raises(SpecError) as refusal:
            load_backfill(
                {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "a"}, "spec": spec}
            )

        (error,) = refusal.value.errors
        assert (error.path, error.message) == (f"spec.{member}.delta.table", "is a path in the form of a name")
        assert "SECRET" not in str(error)


class TestSecrets:
    """A path appears in the status, in events and in logs, so it must hold no secret, and a refusal must not repeat one."""

    @pytest.mark.parametrize(
        "text",
        [
            "s3a://KEY:SECRET@bucket/a",
            "S3A://KEY:SECRET@bucket",
            "s3a://KEY:SEC/RET@bucket/a",
            "s3a:/KEY:SECRET@bucket",
            "s3a:KEY:SECRET@bucket",
            "s3a://SECRET@bucket",
            "hdfs://user:SECRET@host/a",
            "abfss://container:SECRET@account/a",
            "https://user:SECRET@host/a",
        ],
    )
    def test_a_path_with_one_is_refused_without_showing_it(self, text):
        """A refusal that repeats the secret would publish it."""
        document = {
            "apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "a"},
            "spec": {"source": {"type": "Delta", "delta": {"path": text, "key": ["id"]}}, "target": {"delta": {"path": "/b"}}},
        }  # fmt: skip
        with pytest.raises(SpecError) as refusal:
            load_backfill(document)

        (error,) = refusal.value.errors
        assert (error.path, "everyone who may read" in error.message) == ("spec.source.delta.path", True)
        assert all(half not in str(error) for half in ("SECRET", "RET@"))

    @pytest.mark.parametrize(
        "text", ["abfss://c@a.dfs.core.windows.net/x", "s3a://b/a@b:c", "hdfs://host:8020/x", "hdfs://[::1]:8020/x", "hdfs://[::1]/x", "file:/a@b"]
    )  # fmt: skip
    def test_what_only_looks_like_one_is_taken(self, text):
        """A check that is too strict would refuse real tables."""
        assert place(text).path

    @given(
        st.lists(st.sampled_from(["a", "a:", "s3a://", ":", "/", "@", " ", '"', "1", "+", "é"]), max_size=12).map(
            "".join
        )
    )
    def test_is_hidden_in_each_text_as_one_expression_of_more_cost_hides_it(self, text):
        """The linear form must hide all that the first one did."""
        costly = r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,31}:/*)[^\s@\"]*:[^\s@\"]*@"

        assert without_user(text) == re.sub(costly, r"\1…@", text)

    @pytest.mark.parametrize("before", range(LOOKED_AT_CHARACTERS_MAX - 40, LOOKED_AT_CHARACTERS_MAX + 5, 3))
    def test_is_not_shown_where_a_long_value_is_cut(self, before):
        """The cut may be inside the secret, so that its `@` is not looked at."""
        word = "s3a://KEY:" + "SECRET" * 40
        found = without_user(f"{'x' * before} {word}"[:LOOKED_AT_CHARACTERS_MAX], cut=True)

        assert "SECRET"[:3] not in found
        assert "SECRET" not in shown([word + "@bucket"] * 100)
