"""Expressions on which implementations of Jinja differ from Python: each is printed by itself, with the variables of
VARIABLES.
"""

VARIABLES = {
    "s": "Hello Wörld", "e": "", "n": 7, "f": 2.5, "l": [3, 1, 2], "k": ["b", "A", "c"], "z": None, "t": True,
    "d": {"b": 1, "a": {"x": [1, "two", None, 2.0, True]}, "items": "value", "é": "ü"},
    "w": [{"a": 2, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2}], "q": "it's \"q\"\n",
}

EXPRESSIONS = r"""
1/2 | 7//2 | -7//2 | 7%-3 | -7%3 | 7.5//2 | -7.5%2 | 2**10 | 2**-1 | 2**3**2 | -2**2 | 10/5 | 1e3 | 1_000 | 0x1F | 0b11 | 0o17 | 1e16 | 123456789012345678 | 1.0 | 100.0 | 1e-5 | 0.1+0.2
1e22 | 1.5e300 | -0.0 | 3.0*2 | 5 - 7 | true + 1 | true == 1 | 1 == 1.0 | 'a' == 1 | none == none | [1, 2] == [1.0, 2] | (1, 2) == [1, 2] | {'a': 1} == {'a': 1.0} | undefined_name == other_undefined
'a' * 3 | 3 * 'ab' | [1] * 2 | (1,) * 2 | 'a' * -1 | 'a' + 'b' | 'a' ~ 1 ~ none ~ 1.5 ~ [1] | [1] + [2] | 1 + 1.5 | 'a' + 1 | [1] + (2,) | none + 1
s[0] | s[-1] | s[7] | s[99] | s[1:3] | s[::-1] | s[-3:] | s[:-3] | s[::2] | s[5:1:-1] | l[::-1] | l[5:] | l[-2:] | (1, 2, 3)[1:] | range(10)[2:8:2] | s[none:2] | s[1:2:0] | l['a'] | d['missing'] | d.missing | d['items'] | d.keys() | d['keys']()
s.upper() | s.lower() | s.title() | s.swapcase() | s.capitalize() | 'ß'.upper() | 'ﬁ'.title() | 'ΑΣ'.lower() | 'İ'.lower() | "it's a".title() | 'a-b c'|title | 'ǆ'.title() | 'ŉ'.upper()
' a b '.strip() | 'xxaxx'.strip('x') | 'abcba'.lstrip('ab') | 'a,b,,c'.split(',') | ' a  b '.split() | 'a b c'.split(none, 1) | 'a b c '.rsplit(none, 1) | 'a,b,c'.rsplit(',', 1) | ''.split() | ''.split(',') | 'a\nb\r\nc\n'.splitlines() | 'a\nb'.splitlines(true) | 'abc'.split('') | 'a.b'.partition('.') | 'a.b.c'.rpartition('.') | 'ab'.partition('x')
'abab'.replace('a', 'x') | 'abab'.replace('a', 'x', 1) | 'ab'.replace('', '-') | ''.replace('', '-') | 'abab'.find('b') | 'abab'.rfind('b') | 'ab'.find('x') | 'ab'.index('x') | 'aaa'.count('aa') | 'ab'.count('') | 'äbä'.find('ä', 1) | 'abc'.startswith('a') | 'abc'.startswith(('x', 'a')) | 'abc'.endswith('c', 0, 2) | 'abc'.startswith(['a'])
'abc'.removeprefix('a') | 'abc'.removesuffix('c') | 'a'.center(4) | 'ab'.center(5, '*') | 'a'.ljust(3) ~ '|' | 'a'.rjust(3, 'é') | '-5'.zfill(4) | 'a\tb'.expandtabs(4) | ','.join(['a', 'b']) | ','.join([1]) | ','.join('abc') | 'a'.isalpha() | ''.isalpha() | '½'.isnumeric() | '²'.isdigit() | '٣'.isdecimal() | 'A b'.istitle() | 'a1'.isidentifier() | '\n'.isspace()
'%s' % 1 | '%s %s' % (1, 'a') | '%d' % 3.9 | '%5.2f|' % 3.14159 | '%-5s|' % 'a' | '%05d' % -42 | '%+d' % 5 | '%x' % 255 | '%#o' % 8 | '%e' % 12345.678 | '%g' % 1e10 | '%r' % 'a' | '%%' % () | '%(a)s' % {'a': 1} | '%s' % [1] | '%s' % (1, 2) | '%d' % 'a' | '%c' % 65 | '%*d' % (5, 3) | '%.3s' % 'abcdef' | '%s'|format(none) | '%s-%s'|format(1, 2)
'{} {}'.format(1, 'a') | '{1}{0}'.format(1, 2) | '{a}'.format(a=1) | '{:>5}'.format('a') | '{:^5}|'.format('a') | '{:05.1f}'.format(3.14159) | '{:,}'.format(1234567) | '{:x}'.format(255) | '{:%}'.format(0.5) | '{!r}'.format('a') | '{0[a]}'.format({'a': 1}) | '{0.a}'.format({'a': 1}) | '{{}}'.format() | '{}'.format() | '{:d}'.format('a') | '{:.3}'.format(2.0/3) | '{:e}'.format(1234.5) | '{:*^+9}'.format(5) | '{:_}'.format(12345) | '{:{}}'.format('a', 4)
'{:c}'.format(65) | '{:c}'.format(0x20AC) | '{:5c}|'.format(65) | '{:^5c}|'.format(0x1F600) | '{:*<4c}'.format(65) | '{:05c}'.format(65) | '{:=4c}'.format(65) | '{:c}'.format(true) | '{:c}'.format(-1) | '{:c}'.format(0x110000) | '{:.2c}'.format(65) | '{:+c}'.format(65) | '{:#c}'.format(65) | '{:,c}'.format(65) | '{:_c}'.format(65) | '{:c}'.format('a') | '{:c}'.format(65.0)
l|sort | l|sort(reverse=true) | k|sort | k|sort(case_sensitive=true) | w|sort(attribute='a')|map(attribute='a')|list | [1, 'a']|sort | l|first | l|last | []|first | []|last | l|sum | w|sum(attribute='a') | l|min | l|max | []|max | k|max | l|join(', ') | w|join(',', attribute='a') | l|reverse|list | 'abc'|reverse | l|length | s|length | d|length | 5|length
l|map('string')|list | w|map(attribute='b')|list | w|map(attribute='b', default='-')|list | k|map('upper')|join | l|select('odd')|list | l|reject('odd')|list | w|selectattr('b')|list | w|selectattr('a', 'eq', 2)|list | w|rejectattr('b', 'defined')|list | [1, 1.0, true, 'a', 'A']|unique|list | l|batch(2)|list | l|batch(2, 0)|list | l|slice(2)|list | l|slice(2, 'x')|list | w|groupby('a') | w|groupby('a')|map(attribute='list')|list | d|dictsort | d|items|list | d.items()|list | d.values() | d|list | none|list | none|map('upper')|list
s|upper | 5|upper | none|trim | ' a '|trim | 'xax'|trim('x') | 'a\nb\n\nc'|indent | 'a\nb'|indent(2, true) | 'a\n\nb'|indent(1, blank=true) | 'a b c d'|truncate(5) | 'hello world foo'|truncate(9) | 'hello world foo'|truncate(9, true) | 'abcdefghij'|truncate(5, true, '', 0) | 'a b'|wordcount | 'ab'|center(6) | '<a>'|e | '<a>'|safe | ('<'|safe) + '<' | '<' + ('<'|e) | '<'|e|e | '<'|e|forceescape | 'a b/c'|urlencode | {'a b': 1}|urlencode | 1500|filesizeformat | 'a'|replace('a', 'b') | 'aa'|replace('a', 'b', 1)
'3.7'|int | '0x1A'|int(0, 16) | 'x'|int | 'x'|int(5) | none|int | 3.9|int | ' 42 '|int | '1_0'|int | '٣'|int | '1e3'|int | true|int | '2.5'|float | 'x'|float(1.5) | 'inf'|float | 42.55|round | 42.55|round(1) | 2.5|round | 3.5|round | 1234|round(-2) | 42.4|round(0, 'ceil') | 42.55|round(1, 'floor') | -3|abs | 'a'|abs | none|default('x') | undefined_name|default('x') | ''|default('x', true) | 0|d(5, true)
d|tojson | d|tojson(indent=2) | 'é<\u2028>'|tojson | 'é'|tojson(ensure_ascii=true) | '😀'|tojson(ensure_ascii=true) | {'b': 1, 'a': 2}|tojson(sort_keys=true) | [1, 2.0, 1e20, none, true]|tojson | []|tojson(indent=2) | [[]]|tojson(indent=1) | {1: 2, none: 3, true: 4, 1.5: 5}|tojson | (1, 2)|tojson | l|tojson(separators=(',', ':')) | undefined_name|tojson | q|tojson | '\x7f'|tojson(ensure_ascii=true) | [1]|tojson(indent='--')
[s, q, none, true, 1.0, 'é\u200b\n\\'] | {'a': (1,), 'b': ()} | ("it's",) | ['"'] | ['\'"'] | ['\x00\x7f\xad'] | [undefined_name] | range(3) | range(0, 5, 2) | namespace(a=1) | [1e300 * 10] | [-0.0, 1e-7, 123456.789e3]
1 < 2 < 3 | 3 > 2 > 2 | 'a' < 'b' | 'a' < 1 | [1, 2] < [1, 3] | none < 1 | 1 in l | 'W' in s | 'a' in d | 1 not in l | 1 in 'abc' | 'x' in none | 'b' in d.keys() | (1 in [1] and 2) | not 1 == 2 | 1 and 0 or 'x' | '' or none | none or [] | 0 if false | (0 if false) is defined | 'a' if t else 'b'
s is string | 5 is number | true is number | true is integer | 1.0 is float | d is mapping | l is sequence | d is sequence | s is iterable | none is none | undefined_name is undefined | z is defined | 4 is divisibleby 2 | 3 is odd | 'a' is lower | 'A1' is upper | 1 is eq 1 | 1 is in [1] | 1 is not in [1] | range is callable | 'upper' is filter | 'odd' is test | true is sameas true | 1 is sameas true | false is false | '<'|e is escaped | undefined_name is callable | undefined_name is sequence
undefined_name | undefined_name.x | undefined_name[0] | undefined_name() | undefined_name + 1 | undefined_name ~ 'x' | undefined_name|length | undefined_name|list | undefined_name|upper | undefined_name|int | not undefined_name | undefined_name in [1] | 1 in undefined_name | d.a.x[1] | d.a.y.z | d.a.y|default('q') | s.nothing | s.__class__ | s['__class__'] | d.__len__ | l.append | l.append(1) | d.update({}) | d.get('b') | d.get('x') | d.get('x', 5) | d.copy() == d | l.index(1) | l.count(1) | (1, 2).index(5)
dict(a=1, b=2) | dict([('a', 1)]) | dict({'a': 1}, b=2) | range(3)|list | range(3, 0, -1)|list | range(0) | cycler(1, 2).next() | joiner(',')() | strftime_now('%d %b %Y') | strftime_now('%H:%M:%S %j %A') | [1, 2,] | (1,) | () | {} | {'a': 1,} | 'a' 'b' | "a\tb\x41\u00e9\101\q" | s|attr('upper') is callable | d|attr('b') is defined | [1, [2, [3]]] | -s|length | - 5|abs | 1 is defined and 2 | l|length > 2 and s
"""

# What has no end or ends with a comma, where jinja2 decides otherwise than its documentation.
TEMPLATES = [
    "{% for i, in [[1], [2]] %}{{ i }}{% endfor %}", "{% for i, j, in [[1, 2]] %}{{ i }}{% endfor %}",
    "{% for (i,) in [[1]] %}{{ i }}{% endfor %}", "{% for ((i,), j) in [[[1], 2]] %}{{ i }}{{ j }}{% endfor %}",
    "{% for i in [1], recursive %}{{ i }}{% endfor %}", "{% for i in [1], [2], %}{{ i }}{% endfor %}",
    "{% for i in [1] recursive %}{{ i }}{% endfor %}", "{% for in [1] %}{% endfor %}", "{% set a, = [1] %}{{ a }}",
    "{% set (a,) = [1] %}{{ a }}", "{% set a, %}x{% endset %}{{ a }}", "{% with a, = [1] %}{{ a }}{% endwith %}",
    "a{% raw %}", "a {%- raw -%} \n", "a{% raw %}\n", "a{% raw %}\n\n", "a{% raw %}b", "a{% raw %} {% endraw",
    "{% if true %}a{% raw %}", "a{#", "a {#-", "a\n  {#", "a{#+", "a{#\n", "a{#\n\n", "a{# ", "a{# b", "{% raw %}{#",
    "{% if true %}a{% endif %}{#", "{% if true %}a{#",
]  # fmt: skip


def expressions():
    """They stand with " | " between; filters are written without blanks."""
    for line in EXPRESSIONS.strip().split("\n"):
        yield from line.split(" | ")
