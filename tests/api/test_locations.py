"""Spellings of the location of a table: each string has one meaning, or is rejected with a hint."""

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
    def test_a_local_uri_is_a_plain_path(self, text):
        """Most users write a plain path, which must stay unchanged."""
        assert (place(text).path, place(text).is_local) == ("/lake/x", True)

    @pytest.mark.parametrize("text", ["/lake/x", "//lake/x", "/lake//x/"])
    def test_a_plain_path_has_no_repeated_slashes(self, text):
        """Two slashes at the start of a path name no host, although URI parsers read them as one."""
        assert place(text).path == "/lake/x"

    @pytest.mark.parametrize("text", ["lake/x", "./lake:x/y", "~/x", ".", "..", "/a/b:c"])
    def test_a_relative_path_stays_unchanged(self, text):
        """The machine that runs the job resolves it."""
        assert (place(text).scheme, place(text).path) == ("", text)

    @pytest.mark.parametrize("text", ["lake/x", "./x", "~/x", ".", ".."])
    def test_only_some_locations_are_absolute(self, text):
        """A pod has neither the user's current folder nor a home."""
        assert not place(text).is_absolute
        assert all(place(location).is_absolute for location in ("/x", "file:/x", "s3a://b/x", "s3a://b", "hdfs:/x"))

    @pytest.mark.parametrize("text", ["/a b%41ü", "/a%20b", "/a?b#c"])
    def test_a_percent_sign_is_not_decoded(self, text):
        """Spark decodes no percent signs in paths: a decoded path would be another table."""
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
    def test_a_uri_has_one_spelling(self, text, uri):
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
    """A string without a meaning is rejected before a driver starts."""

    @pytest.mark.parametrize(("text", "hint"), REFUSED.items(), ids=map(repr, REFUSED))
    def test_a_string_without_a_meaning_is_refused_with_a_hint(self, text, hint):
        """The user must learn how to write the intended location."""
        with pytest.raises(PlaceError) as refusal:
            place(text)
        assert re.search(hint, refusal.value.hint)

    @pytest.mark.parametrize("field", ["source", "target"])
    def test_the_error_of_a_spec_names_the_field(self, field):
        """A spec has two locations, so the error names the wrong one."""
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
    """Spark has no file system for the scheme, or a different one: `validate` accepted it, and `plan` failed after five seconds (fault U6)."""

    FOREIGN = {
        "s3://lake/orders": "write s3a://lake/orders",
        "S3N://lake//orders/": "write s3a://lake/orders",
        "gcs://lake/orders": "write gs://lake/orders",
        "az://lake/orders": "write abfss://container@account.dfs.core.windows.net/path",
    }

    @pytest.mark.parametrize(("text", "hint"), FOREIGN.items())
    @pytest.mark.parametrize("field", ["source.delta.path", "target.delta.path", "source.kafka.quarantinePath"])
    def test_a_foreign_scheme_is_refused_with_the_scheme_to_write(self, text, hint, field):
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
    def test_a_foreign_scheme_is_refused_at_admission(self, text):
        """The CRD's rules match the model's for each field with a location."""
        crd = yaml.load(schema.CRD_FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        for end, member, field in (
            ("source", "delta", "path"),
            ("target", "delta", "path"),
            ("source", "kafka", "quarantinePath"),
        ):
            rules = spec[end]["properties"][member]["x-kubernetes-validations"]
            patterns = [
                (match[1], rule["message"])
                for rule in rules
                if (
                    match := re.fullmatch(
                        rf"!has\(self\.{field}\) \|\| !self\.{field}\.matches\('(.*)'\)", rule["rule"]
                    )
                )
            ]
            refused = [message for pattern, message in patterns if re.match(pattern, text) and "write" in message]
            assert len(refused) == 1, (end, member, patterns)
            assert not [
                pattern
                for pattern, message in patterns
                if re.match(pattern, "s3a://lake/orders") and "write" in message
            ]

    def test_a_catalog_may_name_a_foreign_scheme(self):
        """The catalog defines the location of its tables, and its session has the file system."""
        assert place("s3://lake/orders").uri == "s3://lake/orders"


class TestATable:
    """The name of a catalog table is no location, and no location passes as a name."""

    @pytest.mark.parametrize("member", ["source", "target"])
    @pytest.mark.parametrize(
        "table", ["delta.`/tmp/orders`", "delta.`s3a://KEY:SECRET@bucket/a`", "parquet.`orders/a`"]
    )
    def test_a_path_in_the_form_of_a_name_is_refused(self, member, table):
        """On a cluster, the path passed the check against folders that are deleted with the pod (fault S10)."""
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
    """Status, events and logs show a path, so it must contain no secret, and an error must not repeat one."""

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
    def test_a_path_with_a_secret_is_refused_without_showing_it(self, text):
        """An error that repeats the secret would publish it."""
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
    def test_a_path_that_resembles_one_is_accepted(self, text):
        """A check that is too strict would reject real tables."""
        assert place(text).path

    @given(
        st.lists(st.sampled_from(["a", "a:", "s3a://", ":", "/", "@", " ", '"', "1", "+", "é"]), max_size=12).map(
            "".join
        )
    )
    def test_the_linear_form_hides_what_one_regular_expression_hides(self, text):
        """The regular expression is more expensive, and was the first form."""
        costly = r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,31}:/*)[^\s@\"]*:[^\s@\"]*@"

        assert without_user(text) == re.sub(costly, r"\1…@", text)

    @pytest.mark.parametrize("before", range(LOOKED_AT_CHARACTERS_MAX - 40, LOOKED_AT_CHARACTERS_MAX + 5, 3))
    def test_a_secret_is_hidden_where_a_long_value_is_cut(self, before):
        """The cut may be inside the secret, so the check does not see its `@`."""
        word = "s3a://KEY:" + "SECRET" * 40
        hidden = without_user(f"{'x' * before} {word}"[:LOOKED_AT_CHARACTERS_MAX], cut=True)

        assert "SECRET"[:3] not in hidden
        assert "SECRET" not in shown([word + "@bucket"] * 100)
