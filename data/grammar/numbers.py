"""Numbers in words, ordinals and times of day."""

from __future__ import annotations

EN_SMALL = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
            "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
DE_SMALL = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
            "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"]
EN_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
DE_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
MONTHS = tuple(zip(
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
     "December"],
    ["Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
     "Dezember"], strict=True))
DAYS = tuple(zip(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
                 ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"], strict=True))
EN_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
               "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
               "eighteenth", "nineteenth", "twentieth"]
DE_ORDINALS = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}


def cardinal(number: int) -> tuple[str, str]:
    """(twenty-one, einundzwanzig), for 0 to 999."""
    if number < 20:
        return EN_SMALL[number], DE_SMALL[number]
    if number < 100:
        ten, one = divmod(number, 10)
        if one == 0:
            return EN_TENS[ten - 2], DE_TENS[ten - 2]
        unit = "ein" if one == 1 else DE_SMALL[one]
        return f"{EN_TENS[ten - 2]}-{EN_SMALL[one]}", f"{unit}und{DE_TENS[ten - 2]}"
    hundred, rest = divmod(number, 100)
    german = ("ein" if hundred == 1 else DE_SMALL[hundred]) + "hundert"
    english = f"{EN_SMALL[hundred]} hundred"
    if rest == 0:
        return english, german
    return f"{english} and {cardinal(rest)[0]}", german + cardinal(rest)[1]


def ordinal(number: int) -> tuple[str, str]:
    """(third, dritten), for 1 to 20; the German form is the one after "am"."""
    german = DE_ORDINALS.get(number) or cardinal(number)[1] + ("ten" if number < 20 else "sten")
    return EN_ORDINALS[number - 1], german


def clock(hour: int, quarter: int) -> tuple[str, str]:
    """A time of day, hour 1 to 12, quarter 0 to 3: (half past seven, halb acht)."""
    english, german = cardinal(hour)
    following = cardinal(hour % 12 + 1)
    if quarter == 0:
        return f"{english} o'clock", f"{'ein' if hour == 1 else german} Uhr"
    if quarter == 1:
        return f"a quarter past {english}", f"Viertel nach {german}"
    if quarter == 2:
        return f"half past {english}", f"halb {following[1]}"
    return f"a quarter to {following[0]}", f"Viertel vor {following[1]}"
