// The cursor's tokens, places and messages; quoteText() and floatText() read back exactly.
#include "autosp/support/text_cursor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "autosp/support/nearest.h"

namespace autosp {
namespace {

std::string message(const Status& status) {
  return status.isOk() ? "ok" : status.diagnostic().text();
}

TEST(TextCursor, StepsOverBlanksAndComments) {
  TextCursor cursor("  // a comment\n\t\r\n ( // another\n)");
  EXPECT_TRUE(cursor.accept("("));
  EXPECT_FALSE(cursor.atEnd());
  EXPECT_TRUE(cursor.accept(")"));
  EXPECT_TRUE(cursor.atEnd());
}

TEST(TextCursor, AcceptsWholeWordsOnly) {
  TextCursor cursor("Rank R");
  EXPECT_FALSE(cursor.accept("R"));
  EXPECT_TRUE(cursor.accept("Rank"));
  EXPECT_TRUE(cursor.accept("R"));
}

TEST(TextCursor, ErrorsSayPlaceExpectedAndFound) {
  TextCursor cursor("f(a\n     }");
  EXPECT_EQ(cursor.name("a name").value(), "f");
  EXPECT_TRUE(cursor.accept("("));
  EXPECT_EQ(cursor.name("a name").value(), "a");
  EXPECT_EQ(message(cursor.expect(")", "after the arguments")),
            "line 2, column 6: expected ')' after the arguments, found '}'");
}

TEST(TextCursor, ErrorsNameTheSource) {
  TextCursor cursor("  %12", "plan.sp");
  EXPECT_EQ(cursor.expected("a name").text(), "plan.sp:1:3: expected a name, found '%12'");
}

TEST(TextCursor, SaysWhatItFound) {
  auto found = [](std::string_view text) { return TextCursor(text).expected("x").text(); };
  EXPECT_EQ(found(""), "line 1, column 1: expected x, found the end of the text");
  EXPECT_EQ(found("\"s\""), "line 1, column 1: expected x, found a string");
  EXPECT_EQ(found("-12.5e3,"), "line 1, column 1: expected x, found '-12.5e3'");
  EXPECT_EQ(found("aten.mm("), "line 1, column 1: expected x, found 'aten.mm'");
  EXPECT_EQ(found("@"), "line 1, column 1: expected x, found '@'");
  EXPECT_EQ(found("\x01"), "line 1, column 1: expected x, found the byte 0x01");
}

TEST(TextCursor, ReadsNames) {
  TextCursor cursor("aten.max.dim model.layers.0.weight _x a. b");
  EXPECT_EQ(cursor.name("a name").value(), "aten.max.dim");
  EXPECT_EQ(cursor.name("a name").value(), "model.layers.0.weight");
  EXPECT_EQ(cursor.name("a name").value(), "_x");
  EXPECT_EQ(cursor.name("a name").value(), "a");
  EXPECT_EQ(message(cursor.name("a name").status()),
            "line 1, column 40: expected a name, found '.'");
}

TEST(TextCursor, ReadsNumbers) {
  TextCursor cursor("0 -7 +7 9223372036854775807 -9223372036854775808 1.5 1e3 -inf nan 2.");
  EXPECT_EQ(cursor.integer("an integer").value(), 0);
  EXPECT_EQ(cursor.integer("an integer").value(), -7);
  EXPECT_EQ(cursor.integer("an integer").value(), 7);
  EXPECT_EQ(cursor.integer("an integer").value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(cursor.integer("an integer").value(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(cursor.number("a number").value(), TextCursor::Number(1.5));
  EXPECT_EQ(cursor.number("a number").value(), TextCursor::Number(1000.0));
  EXPECT_EQ(std::get<double>(cursor.number("a number").value()), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(std::get<double>(cursor.number("a number").value())));
  EXPECT_EQ(cursor.number("a number").value(), TextCursor::Number(2.0));
  EXPECT_TRUE(cursor.atEnd());
}

TEST(TextCursor, RefusesBadNumbers) {
  auto integer = [](std::string_view text) {
    return message(TextCursor(text).integer("an integer").status());
  };
  EXPECT_EQ(integer("9223372036854775808"),
            "line 1, column 1: the integer does not fit in 64 bits");
  EXPECT_EQ(integer("1.5"), "line 1, column 1: expected an integer, found '1.5'");
  EXPECT_EQ(integer("12ab"), "line 1, column 1: expected an integer, found '12ab'");
  EXPECT_EQ(integer("inf"), "line 1, column 1: expected an integer, found 'inf'");
  EXPECT_EQ(integer("-"), "line 1, column 1: expected an integer, found '-'");
  EXPECT_EQ(message(TextCursor("1e999").number("a number").status()),
            "line 1, column 1: the float is out of range");
}

TEST(TextCursor, RefusesBadStrings) {
  auto string = [](std::string_view text) {
    return message(TextCursor(text).string("a string").status());
  };
  EXPECT_EQ(string(" \"abc"), "line 1, column 2: the string does not end on its line");
  EXPECT_EQ(string("\"abc\n\""), "line 1, column 1: the string does not end on its line");
  EXPECT_EQ(string(R"("a\q")"),
            R"(line 1, column 3: unknown escape; the escapes are \" \\ \n \t \r \xHH)");
  EXPECT_EQ(string(R"("a\x4")"), "line 1, column 3: expected two hexadecimal digits after \\x");
  EXPECT_EQ(string("\"a\\"),
            "line 1, column 3: unknown escape; the escapes are \\\" \\\\ \\n \\t "
            "\\r \\xHH");
  EXPECT_EQ(string("abc"), "line 1, column 1: expected a string, found 'abc'");
}

TEST(QuoteText, EveryByteReadsBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  const std::string text = quoteText(all);
  EXPECT_EQ(TextCursor(text).string("a string").value(), all);
  EXPECT_EQ(quoteText("a\"b\\c\n\x01"), R"("a\"b\\c\n\x01")");
}

TEST(FloatText, IsNeverAnInteger) {
  EXPECT_EQ(floatText(1), "1.0");
  EXPECT_EQ(floatText(-0.0), "-0.0");
  EXPECT_EQ(floatText(1e-5), "1e-05");
  EXPECT_EQ(floatText(1e30), "1e+30");
  EXPECT_EQ(floatText(0.1), "0.1");
  EXPECT_EQ(floatText(HUGE_VAL), "inf");
  EXPECT_EQ(floatText(-HUGE_VAL), "-inf");
  EXPECT_EQ(floatText(std::nan("")), "nan");
}

TEST(FloatText, ReadsBackToTheSameBits) {
  std::mt19937_64 random(1);
  std::vector<double> values = {std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::max(), 123456789012345680.0};
  for (int i = 0; i < 2000; ++i) {
    const double value = std::bit_cast<double>(random());
    values.push_back(std::isnan(value) ? 0.5 : value);
  }
  for (const double value : values) {
    const std::string text = floatText(value);
    const TextCursor::Number read = TextCursor(text).number("a number").value();
    ASSERT_TRUE(std::holds_alternative<double>(read)) << text;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(std::get<double>(read)),
              std::bit_cast<std::uint64_t>(value))
        << text;
  }
}

TEST(NearestName, FindsTheLikeliest) {
  const std::vector<std::string> names = {"objective", "outputs", "gradients"};
  EXPECT_EQ(nearestName("objectve", names), "objective");
  EXPECT_EQ(nearestName("otuputs", names), "outputs");
  EXPECT_EQ(nearestName("zzz", names), "");
  EXPECT_EQ(didYouMean("gradient", names), " (did you mean 'gradients'?)");
  EXPECT_EQ(didYouMean("zzz", names), "");
}

}  // namespace
}  // namespace autosp
