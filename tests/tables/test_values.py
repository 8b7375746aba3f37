"""What text means: numbers in any notation, dates in any format, and words."""

from datetime import time

import numpy as np
import pandas as pd
import pytest

from stoptime.tables.values import Form, decimal_sign, read, words

AMOUNTS = [
    (["1.234,50 €", "12,00 €", "7 €"], ",€", [1234.5, 12, 7]),
    (["R$ 1.234,50", "-R$ 12,00", "R$7"], ",R$", [1234.5, -12, 7]),
    (["$1,234", "$ 12", "-$3"], ".$", [1234, 12, -3]),
    (["1.234 €", "12 €", "999 €"], ",€", [1234, 12, 999]),
    (["CHF 1'234.50", "CHF 2’000", "-5"], ".CHF", [1234.5, 2000, -5]),
    (["1 234,5", "2\u202f000,25", "3"], ",", [1234.5, 2000.25, 3]),
    (["12.345 %", "7%", "0.500 %"], ".%", [12.345, 7, 0.5]),
    (["0,5", "1,25", "2,000"], ",", [0.5, 1.25, 2]),
    (["1,234", "5,678", "1,234,567"], ".", [1234, 5678, 1234567]),
    (["₹1,23,456", "₹12,34,567.50", "₹500"], ".₹", [123456, 1234567.5, 500]),
    (["€1.5e3", "€2", "+€3"], ".€", [1500, 2, 3]),
    (["(1,234.50)", "12.00", "($3.25)"], ".$", [-1234.5, 12, -3.25]),
    (["1.234,50-", "12,00", "3,00-"], ",", [-1234.5, 12, -3]),
    (["199,-", "49,50", "-5,-"], ",", [199, 49.5, -5]),  # a price without cents
    (["CHF 5.-", "CHF 7.50"], ".CHF", [5, 7.5]),
    (["0,500", "1,250", "2,125"], ",", [0.5, 1.25, 2.125]),  # no thousands begin with 0
    (["−1.5", "−2.25", "3"], ".", [-1.5, -2.25, 3]),
    (["12 kg", "1.250 kg", "7"], ".kg", [12, 1.25, 7]),
    (["5 km/h", "7 km/h"], ".km/h", [5, 7]),
    (["30 m2", "41,5 m2"], ",m2", [30, 41.5]),
    (["128.1K", "1.2M", "7"], ".K", [128100, 1.2e6, 7]),
    (["$1.5K", "$2M"], ".$", [1500, 2e6]),
    (["10:30", "11:45", "0:00:36"], "h", [10.5, 11.75, 0.01]),
    (["10:30 PM", "12:15 am"], "h", [22.5, 0.25]),
    (["980", "1.250", "12.134"], ",", [980, 1250, 12134]),  # points that can only be thousands
    (["980", "1.251", "12.134"], "", [980, 1.251, 12.134]),  # as a program prints three decimals
    (["2", "1.250", "1.600"], "", [2, 1.25, 1.6]),  # too small for thousands
    (["True", "false"], "", [1, 0]),
    (["1e5", ".5", "-7"], "", [1e5, 0.5, -7]),
]


@pytest.mark.parametrize("dtype", [None, object, "string", "string[pyarrow]"])
@pytest.mark.parametrize(("texts", "written", "numbers"), AMOUNTS)
def test_numbers_in_text(texts, written, numbers, dtype):
    """In every type of text: some engines of regular expressions have no back-references."""
    form, values = read(pd.Series([*texts, None], dtype=dtype))
    assert (form.kind, form.decimal + form.unit) == ("number", written)
    np.testing.assert_array_equal(values, [*numbers, np.nan])


@pytest.mark.parametrize(
    "texts",
    [
        ["007", "123"],  # a code
        ["ABC 123", "ABC 124"],
        ["1.2.3", "1.2.4"],
        ["555 1234", "555 1235"],
        ["1-2", "3-4"],
        ["192.168.0.1", "10.0.0.1"],
        ["1,23,456", "1,2"],
        ["USD 5", "EUR 5"],
        ["12 kg", "500 g"],
        ["1st", "2nd"],
        ["1_000", "2_000"],
        ["03/04/2021", "13/14/2021"],
        ["05/13/2021", "13/05/2021"],  # no order of day and month fits both
    ],
)
def test_text_that_only_looks_like_numbers_or_dates_stays_text(texts):
    assert read(pd.Series(texts))[0] == Form("text")


@pytest.mark.parametrize(
    ("texts", "formats", "first"),
    [
        (["03.04.2021", "05.06.2022"], "%d.%m.%Y", "2021-04-03"),
        (["03/04/2021", "05/06/2022"], "%m/%d/%Y", "2021-03-04"),
        (["03/04/2021", "25/06/2022"], "%d/%m/%Y", "2021-04-03"),
        (["3.4.21", "25.6.22"], "%d.%m.%y", "2021-04-03"),
        (["4 Mar 2021", "5 Jun 2022"], "%d %b %Y", "2021-03-04"),
        (["March 4, 2021", "June 5, 2022"], "%B %d, %Y", "2021-03-04"),
        (["2021/03/04", "2022/12/31"], "%Y/%m/%d", "2021-03-04"),
        (["04.03.2021 10:30", "31.12.2022 08:15"], "%d.%m.%Y %H:%M", "2021-03-04 10:30"),
        (["Mar 2021", "Dec 2022"], "%b %Y", "2021-03-01"),
        (["3/4/2021 1:30 PM", "12/31/2022 12:05 AM"], "%m/%d/%Y %I:%M %p", "2021-03-04 13:30"),
        (["2021-03-04", "2022-12-31T10:00Z"], "ISO8601", "2021-03-04"),
        (["2021-03-04", "06/03/2021"], "ISO8601 %m/%d/%Y", "2021-03-04"),
        (["2021-03-04", "16/03/2021", "06/03/2021"], "ISO8601 %d/%m/%Y", "2021-03-04"),
        (["20210304", "20221231"], "%Y%m%d", "2021-03-04"),
        ([20210304, 20221231], "%Y%m%d", "2021-03-04"),
        ([20210304.0, None, 20221231.0], "%Y%m%d", "2021-03-04"),
    ],
)
def test_dates_in_every_format_are_days(texts, formats, first):
    form, values = read(pd.Series(texts))
    assert (form.kind, " ".join(form.formats)) == ("date", formats)
    expected = (pd.Timestamp(first) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    assert values[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("numbers", [[20211304, 20220101], [20210304.5, 20220101], [1, 20220101]])
def test_whole_numbers_that_are_not_all_dates_stay_numbers(numbers):
    assert read(pd.Series(numbers))[0].kind == "number"


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1.250", "3.500"], [1250, 3500]),  # ambiguous: the other columns of the table decide
        (["1.25", "3.500"], [1.25, 3.5]),
        (["1.250,5", "3"], [1250.5, 3]),
    ],
)
def test_the_decimal_sign_of_a_table_decides_where_a_column_does_not(texts, numbers):
    np.testing.assert_array_equal(read(pd.Series(texts), decimal=",")[1], numbers)
    columns = ["1,5"], ["1.5"], ["7"], [1.5, None], [7.0, None], [7], [True]
    assert [decimal_sign(pd.Series(one)) for one in columns] == [",", ".", "", ".", "", "", ""]


@pytest.mark.parametrize(
    ("odd", "usual"),
    [("unknown", "{}"), ("USD 1.50", "EUR {}.50"), ("0.05", "{} %"), ("3 g", "{} kg")],
)
def test_words_or_other_units_among_numbers_are_an_error(odd, usual):
    with pytest.raises(ValueError, match=rf"mixed with '{odd}'.*na=\['{odd}'\]"):
        read(pd.Series([odd, *(usual.format(i) for i in range(20))]))


def test_money_in_several_currencies_is_an_error():
    money = [f"{'€$£'[i % 3]}{i}.50" for i in range(30)]
    with pytest.raises(ValueError, match=r"'€0\.50' are mixed with '\$1\.50'.*in one unit"):
        read(pd.Series(money))


def test_times_of_a_workbook_are_hours():
    form, values = read(pd.Series([time(10, 30), None, time(11, 45)]))
    assert form == Form("number", unit="h")
    np.testing.assert_array_equal(values, [10.5, np.nan, 11.75])


def test_blank_text_is_a_gap():
    np.testing.assert_array_equal(
        read(pd.Series(["1,5", " ", "", "2"]))[1], [1.5, np.nan, np.nan, 2]
    )
    assert words(pd.Series([" a ", "", None, "b"])).tolist() == ["a", None, None, "b"]
    assert words(pd.Series([True, 1, 1.0, "1"], dtype=object)).tolist() == ["True", "1", "1.0", "1"]


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, pd.Timedelta(days=1), 1j])
def test_what_cannot_become_a_number_is_an_error(value):
    with pytest.raises(ValueError, match="drop the column"):
        read(pd.Series([value, value]))
