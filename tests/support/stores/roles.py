"""Keys of a role, as the server's security token service (STS) gives them."""

import json
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

from support.stores.objects import Keys, Request, ask

NAMES = "{https://sts.amazonaws.com/doc/2011-06-15/}"
READS = ("s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation")
READ_ONLY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": READS, "Resource": ["arn:aws:s3:::*"]}],
}
HOUR_S = 3600


def all_but(key):
    """Return a policy that allows everything except to read one object, `bucket/key`."""
    everything = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}
    shut = {"Effect": "Deny", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{key}"]}
    return {**READ_ONLY, "Statement": [everything, shut]}


def none_written_below(folder):
    """Return a policy that allows everything except to write below one folder, `bucket/folder`."""
    everything = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}
    shut = {"Effect": "Deny", "Action": ["s3:PutObject"], "Resource": [f"arn:aws:s3:::{folder}/*"]}
    return {**READ_ONLY, "Statement": [everything, shut]}


def assumed_role(endpoint, keys, policy):
    """Return keys for an hour with the rights of a policy."""
    form = {"Action": "AssumeRole", "Version": "2011-06-15", "DurationSeconds": HOUR_S, "Policy": json.dumps(policy)}
    answer = ask(endpoint, Request("POST", "/", body=urlencode(form).encode(), service="sts"), keys)
    assert answer.status == 200, answer.body
    given = ET.fromstring(answer.body)
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    return Keys(*(given.findtext(f".//{NAMES}{name}") for name in names))
