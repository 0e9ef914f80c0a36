// A cursor over a text: the lexical half of every parser here. White space and comments ("//" to
// the end of the line) are skipped before each token. Errors carry the place and what was found
// there:
//
//   line 3, column 14: expected ')' after the arguments, found '}'
//   plan.sp:3:14: expected ')' after the arguments, found '}'      when the text has a source name
//
// Lines and columns count from 1, columns in bytes. The inverse functions, quoteText() and
// floatText(), write what the cursor reads back to the same bytes and bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "autosp/support/status.h"

namespace autosp {

class TextCursor {
 public:
  // The text must outlive the cursor.
  explicit TextCursor(std::string_view text, std::string source = "")
      : text_(text), source_(std::move(source)) {}

  // Where the next token begins: a place for errorAt.
  std::size_t offset();
  bool atEnd() { return offset() == text_.size(); }

  // Whether the next token is this one. A token that ends as a word must be a whole word: "R" is
  // not a prefix of "Rank".
  bool peek(std::string_view token);
  // The same, and steps over it.
  bool accept(std::string_view token);
  // Steps over the token or is the error "expected 'token' <where>, found ...".
  Status expect(std::string_view token, std::string_view where);

  // Letters, digits and '_', not beginning with a digit; parts may be joined by single dots.
  Result<std::string> name(std::string_view what);
  bool peekName();
  // A "string" with the escapes \" \\ \n \t \r \xHH; it ends on its line.
  Result<std::string> string(std::string_view what);
  bool peekString() { return peek("\""); }
  Result<std::int64_t> integer(std::string_view what);
  // An integer, or a float: a number with '.' or an exponent, inf, -inf or nan.
  using Number = std::variant<std::int64_t, double>;
  Result<Number> number(std::string_view what);
  bool peekNumber();

  // "expected <what>, found <next token>", at the next token.
  Diagnostic expected(std::string_view what);
  Diagnostic errorAt(std::size_t offset, std::string message) const;

 private:
  std::string_view rest() const { return text_.substr(at_); }
  std::string found();
  std::string_view numberToken() const;

  std::string_view text_;
  std::string source_;
  std::size_t at_ = 0;
};

// Whether TextCursor::name reads the whole text.
bool isName(std::string_view text);
// The text as a string token.
std::string quoteText(std::string_view text);
// The shortest text that reads back to the same float, and never as an integer: "1.0", "1e-05",
// "inf".
std::string floatText(double value);

}  // namespace autosp
