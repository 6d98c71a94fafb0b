"""SQL that a transform may contain, and SQL that it may not, by the reason."""

SCHEMA = """
    id long, n int, part int, amount double, price decimal(12,2), s string, email string, ok boolean, b binary, d date,
    ts timestamp, tn timestamp_ntz, tags array<string>, nums array<int>, props map<string,int>, v variant,
    address struct<city: string, zip: string, geo: struct<lat: double, lon: double>>,
    lines array<struct<sku: string, qty: int>>, `odd name.x` string, _metadata_of string
"""

ORDINARY = """
id
`odd name.x` AS odd
CAST(id AS string) AS id_text
id::int AS narrow
try_cast(s AS date) AS maybe_day
CASE WHEN n = 1 THEN 'one' WHEN n > 1 THEN 'many' ELSE 'none' END AS word
CASE n WHEN 1 THEN 'a' END AS simple_case
if(n > 0, 100 / n, NULL) AS guarded
if(n < 0, raise_error('negative'), n) AS checked
coalesce(assert_true(n > 0), s) AS asserted
coalesce(n, part, 0) AS first_there
nullif(s, '') AS no_empty
nvl2(s, 1, 0) AS there
ifnull(amount, 0.0) AS amount_or_0
amount * 2 + 1 AS twice
price * 1.19 AS gross
CAST(price AS decimal(20,4)) / 3 AS third
round(amount, 2) AS rounded
bround(price, 1) AS bankers
pmod(id, 16) AS bucket
id DIV 100 AS hundreds
n & 7 AS low_bits
shiftleft(n, 2) AS shifted
greatest(n, part) AS larger
sqrt(abs(amount)) AS root
pi() * amount AS round_one
upper(trim(s)) AS tidy
substring(s, 1, 3) AS head
substr(s FROM 2 FOR 2) AS middle
left(s, 2) || '-' || right(s, 2) AS joined
concat_ws('/', s, email) AS path
split(email, '@')[1] AS domain
split_part(email, '@', 2) AS domain_part
regexp_replace(email, '^[^@]+', '***') AS masked
regexp_extract(s, '([0-9]+)', 1) AS digits
s RLIKE '^[a-z]+$' AS lower_only
s LIKE 'now%' AS like_now
s ILIKE ANY ('%today%', 'x') AS like_any
lpad(CAST(id AS string), 10, '0') AS padded
format_string('%05d', n) AS formatted
initcap(s) AS title
translate(s, 'abc', 'xyz') AS translated
sha2(email, 256) AS hashed
md5(CAST(id AS string)) AS md
xxhash64(id, s) AS hash64
base64(b) AS b64
hex(b) AS hexed
aes_encrypt(s, '0000111122223333', 'ECB') AS secret
aes_encrypt(s, '0000111122223333', 'CBC', 'DEFAULT', unhex('00000000000000000000000000000000')) AS secret_with_vector
s = 'now' AS is_the_word_now
concat('now', s) AS now_in_text
'today' AS just_text
n IN (1, 2, 3) AS is_in
n BETWEEN 1 AND 5 AS is_between
ok AND NOT (n IS NULL) AS both
s IS DISTINCT FROM email AS differs
to_date(s) AS day
to_date(s, 'dd.MM.yyyy') AS german_day
to_timestamp(s, 'yyyy-MM-dd HH:mm:ss') AS moment
CAST(s AS timestamp) AS cast_moment
CAST(ts AS date) AS ts_day
date_trunc('HOUR', ts) AS ts_hour
date_format(ts, 'yyyy-MM') AS ts_month
year(ts) * 100 + month(ts) AS ym
extract(DAY FROM d) AS dom
date_add(d, 7) AS next_week
datediff(d, DATE'2020-01-01') AS days_since
ts > TIMESTAMP'2024-01-01 00:00:00' AS recent
ts >= '2024-01-01' AS recent_text
d = DATE '2024-02-29' AS leap
ts + INTERVAL 1 DAY AS tomorrow
d - INTERVAL '3' MONTH AS a_quarter_ago
months_between(ts, d) AS months
unix_timestamp(ts) AS seconds
unix_timestamp('2020-01-01', 'yyyy-MM-dd') AS fixed_seconds
from_unixtime(id) AS from_seconds
timestamp_millis(id) AS from_millis
from_utc_timestamp(ts, 'Europe/Berlin') AS local_time
convert_timezone('UTC', 'Asia/Tokyo', tn) AS tokyo
make_date(2020, n, 1) AS made
last_day(d) AS month_end
tn + INTERVAL 2 HOURS AS later
address.city AS city
address.geo.lat AS lat
address.* EXCEPT (city, geo)
struct(id, s AS name) AS pair
named_struct('a', n, 'b', s) AS named
tags[0] AS first_tag
element_at(tags, 1) AS same_tag
array_contains(tags, 'x') AS has_x
size(tags) AS tag_count
array_distinct(tags) AS unique_tags
sort_array(nums) AS sorted
array_join(tags, ',') AS tag_text
transform(nums, e -> e * 2) AS doubled
transform(nums, (e, i) -> e + i) AS indexed
filter(nums, e -> e > n) AS above
aggregate(nums, 0, (acc, e) -> acc + e) AS total
exists(nums, e -> e = 0) AS any_zero
forall(nums, e -> e > 0) AS all_above
zip_with(nums, nums, (a, b) -> a * b) AS squares
lines.sku AS skus
transform(lines, l -> named_struct('sku', upper(l.sku), 'qty', l.qty)) AS tidy_lines
flatten(array(nums, nums)) AS flat
slice(nums, 1, 2) AS sliced
sequence(1, 3) AS counting
props['k'] AS of_k
map_keys(props) AS keys
map_filter(props, (k, x) -> x > 1) AS some
transform_values(props, (k, x) -> x + 1) AS more
map_from_arrays(array('a'), array(n)) AS made_map
from_json(s, 'a INT, b STRING') AS parsed
from_json(s, 'a INT').a AS parsed_a
get_json_object(s, '$.a.b') AS json_path
to_json(address) AS address_json
schema_of_json('{"a": 1}') AS json_schema
from_csv(s, 'a INT, b STRING') AS csv
str_to_map(s, ',', ':') AS text_map
parse_json(s) AS variant
try_parse_json(s) AS maybe_variant
variant_get(v, '$.a', 'int') AS a_of_v
v:a::int AS short_a_of_v
parse_url(s, 'HOST') AS host
url_encode(s) AS encoded
ascii(s) AS code
levenshtein(s, email) AS distance
soundex(s) AS sound
CAST(NULL AS string) AS nothing
CAST(array() AS array<string>) AS empty_texts
named_struct('x', CAST(NULL AS int)) AS inner_null
typeof(n) AS its_type
width_bucket(amount, 0, 100, 10) AS histogram
hash(id) AS h
crc32(b) AS crc
is_valid_utf8(s) AS valid
try_divide(amount, n) AS divided
try_to_timestamp(s) AS maybe
s COLLATE UTF8_LCASE = 'abc' AS any_case
""".strip().splitlines()
"""A long list of expressions that users write."""

ANOTHER_EACH_TIME = """
CAST('now' AS timestamp)
CAST(' Now ' AS timestamp)
CAST('TODAY' AS date)
CAST('today UTC' AS timestamp)
'yesterday'::timestamp_ntz
CAST(concat('n', 'ow') AS timestamp)
to_timestamp('now')
to_date('tomorrow')
try_cast('yesterday' AS date)
try_to_timestamp('now')
date_add('today', 1)
ts > 'now'
d = 'today'
tn < 'tomorrow'
n > 0 AND ts BETWEEN 'yesterday' AND 'now'
coalesce(ts, 'now')
date'today'
DATE 'Tomorrow'
date /* of */ 'yesterday'
date"today"
timestamp'now'
timestamp r'now'
timestamp '\\u006eow'
timestamp_ltz 'today Europe/Berlin'
timestamp_ntz 'yesterday'
d > date'today' - 1
current_timestamp()
current_date
now()
localtimestamp()
curdate()
current_time()
current_timezone()
convert_timezone('Asia/Tokyo', tn)
unix_timestamp()
datediff(current_date(), d)
current_user()
session_user()
user()
current_database()
current_schema()
current_catalog()
current_path()
version()
input_file_name()
input_file_block_start()
spark_partition_id()
monotonically_increasing_id()
rand()
rand(7)
randn()
random()
uuid()
uniform(0, 10)
randstr(5)
shuffle(nums)
transform(nums, e -> e + rand())
aes_encrypt(s, '0000111122223333')
aes_encrypt(s, '0000111122223333', 'CBC')
reflect('java.util.UUID', 'randomUUID')
java_method('java.lang.System', 'nanoTime')
try_reflect('java.lang.System', 'nanoTime')
_metadata.file_path
_metadata.row_index
'${env:HOME}'
'${spark:spark.app.id}'
""".strip().splitlines()

NOT_OF_ONE_ROW = """
count(*)
sum(n)
max(n) FILTER (WHERE n > 0)
any_value(s)
row_number() OVER (ORDER BY id)
sum(n) OVER ()
lag(n) OVER (PARTITION BY part ORDER BY id)
explode(nums)
posexplode(nums)
inline(lines)
stack(2, id, n)
json_tuple(s, 'a')
explode_outer(props)
window(ts, '10 minutes', '5 minutes')
window(ts, '10 minutes').start
session_window(ts, '5 minutes')
(SELECT max(id) FROM range(3))
EXISTS (SELECT 1)
n IN (SELECT id FROM range(3))
""".strip().splitlines()

VOID = [
    "NULL",
    "raise_error('x')",
    "assert_true(n > 0)",
    "array()",
    "array(NULL)",
    "struct(n, NULL AS m)",
    "map('a', NULL)",
]
