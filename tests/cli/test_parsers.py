import pytest

from kvtool.cli.dtypes import parse_dtype
from kvtool.cli.parsers import choice, integer, real
from kvtool.cli.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1GiB", 2**30),
        ("1GB", 10**9),
        ("1 MiB", 2**20),
        ("1.5mb", 1_500_000),
        ("2KiB", 2048),
        ("2kb", 2000),
        ("0.5TiB", 2**39),
        ("2 pib", 2**51),
        ("4096", 4096),
        ("4096B", 4096),
        ("0.1GB", 100_000_000),
    ],
)
def test_sizes_are_exact(text: str, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "-1GiB",
        "0",
        "0.1B",
        "1G",
        "1_000",
        "1e9",
        "nan",
        "inf GiB",
        "1 GiB 2",
        "9e",
        "9" * 26 + "TiB",
        "9" * 5000,
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|out of range"):
        parse_size(text)


def test_format_size() -> None:
    assert [format_size(n) for n in (512, 2048, 2**30 * 3 // 2)] == ["512 B", "2.0 KiB", "1.5 GiB"]
    sizes = (1023, 2**20 - 1, 2**50 - 1, 2**50)
    assert [format_size(n) for n in sizes] == ["1023 B", "1.0 MiB", "1.0 PiB", "1.0 PiB"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bf16", "bfloat16"),
        ("bfloat16", "bfloat16"),
        ("fp16", "float16"),
        ("half", "float16"),
        ("FP32", "float32"),
        ("auto", "auto"),
    ],
)
def test_dtype_aliases(text: str, name: str) -> None:
    assert parse_dtype(text) == name


def test_unknown_dtype_lists_what_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"'bf15'.*float32.*Did you mean 'bf16'"):
        parse_dtype("bf15")


@pytest.mark.parametrize(
    "text", ["1.0", "1_0", "", " 1", "0x1", "nan", "\u0661", "0", "-1", "11", "9" * 9000]
)
def test_integers_are_strict(text: str) -> None:
    with pytest.raises(ValueError, match=r"whole number|out of range"):
        integer(1, 10)(text)


def test_integer_bounds_and_defaults() -> None:
    parse = integer(1, 10)
    assert [parse("1"), parse("+10"), parse(3)] == [1, 10, 3]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1_0", "", "1,5", "1e999", "-0.1", "1.1"])
def test_reals_are_finite_and_in_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"finite number|out of range"):
        real("0 to 1", lambda x: 0 <= x <= 1)(text)


def test_real_values() -> None:
    parse = real("0 to 1", lambda x: 0 <= x <= 1)
    assert [parse("0.5"), parse(".5"), parse("5e-1"), parse(1.0)] == [0.5, 0.5, 0.5, 1.0]


def test_choice_suggests_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"'lruu' is unknown; allowed: lru, fifo. Did you mean 'lru'"
    ):
        choice(("lru", "fifo"))("lruu")
