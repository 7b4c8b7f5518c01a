# SPDX-License-Identifier: GPL-2.0-only
# Uses much of the interpreter, the same way each time.
import sys, re, collections, functools, itertools, ast, dis, io

state = 12345
def next_number():
    global state
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return state >> 8

numbers = [next_number() for _ in range(3000)]
out = [sorted(numbers)[::1000], sorted(map(hex, numbers), key=lambda text: text[::-1])[::1000]]
out.append(collections.Counter(n % 97 for n in numbers).most_common(3))
text = " ".join(chr(97 + n % 26) * (1 + n % 7) for n in numbers)
out.append(len(set(re.findall(r"\b([a-m]+)(?=\s)", text))))
out.append(len(re.sub(r"(\w+) (\w+)", r"\2 \1", text).title().encode("utf-16")))
out.append(functools.reduce(lambda a, b: (a * 31 + b) % (10**30 + 57), numbers))
out.append(pow(3, 10**40 + 1, 10**60 + 7))
out.append(f"{1/3:.17g} {10**25:e} {2**0.5!r:>25} {-7 // 2} {complex(1, 2) ** 3}")

class Shape:
    __slots__ = ("n",)
    def __init__(self, n): self.n = n
    def __add__(self, other): return Shape(self.n + getattr(other, "n", other))
    def __repr__(self): return f"<{self.n}>"
    def __getattr__(self, name): return name + "?"
out += [Shape(2) + Shape(3) + 4, Shape(1).area]

def walk(n):
    try:
        yield n
        if n > 1:
            yield from walk(n // 2 if n % 2 == 0 else 3 * n + 1)
    finally:
        n = 0
out.append([len(list(walk(n))) for n in (27, 97)])
source = "\n".join(f"def f{n}(a, *b, c={n}, **d):\n  return [x * a for x in b if x > c] or {{**d, 'c': c}}" for n in range(60))
space = {}
exec(compile(ast.parse(source), "made", "exec"), space)
out.append([space[f"f{n}"](2, *range(n)) for n in (0, 7)])
listing = io.StringIO()
dis.dis(space["f1"], file=listing)
out.append(len(listing.getvalue().splitlines()))
match numbers[0] % 3, "x":
    case (0 | 1 as which, str(s)): out.append((which, s))
    case _: out.append("other")
out.append(sum(len(p) for p in itertools.permutations(range(6), 4)))
out.append(bytes(bytearray(range(64)))[::7].hex() + memoryview(b"wide leaf")[2:5].tobytes().decode())
for kind in (ZeroDivisionError, KeyError, UnicodeDecodeError):
    try:
        {ZeroDivisionError: lambda: 1 / 0, KeyError: lambda: {}["k"], UnicodeDecodeError: lambda: b"\xff".decode()}[kind]()
    except kind as error:
        out.append(f"{kind.__name__}: {error}")
table = {}
for n in numbers * 8:
    table.setdefault(str(n % 1009), []).append(n ^ len(table))
out.append(max(len(v) for v in table.values()))
print(*out, sep="\n")
