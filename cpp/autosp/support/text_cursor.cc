#include "autosp/support/text_cursor.h"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace autosp {
namespace {

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isWord(char c) {
  return isLetter(c) || isDigit(c);
}

// The name at the start of the text; empty when there is none.
std::string_view leadingName(std::string_view text) {
  if (text.empty() || !isLetter(text[0])) {
    return {};
  }
  std::size_t n = 1;
  while (n < text.size() &&
         (isWord(text[n]) || (text[n] == '.' && n + 1 < text.size() && isWord(text[n + 1])))) {
    ++n;
  }
  return text.substr(0, n);
}

std::size_t countDigits(std::string_view text, std::size_t at) {
  std::size_t n = 0;
  while (at + n < text.size() && isDigit(text[at + n])) {
    ++n;
  }
  return n;
}

// -1 for what is not a hexadecimal digit.
int hexDigit(char c) {
  if (isDigit(c)) {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string hexByte(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {kDigits[byte / 16], kDigits[byte % 16]};
}

}  // namespace

std::size_t TextCursor::offset() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else if (rest().starts_with("//")) {
      while (at_ < text_.size() && text_[at_] != '\n') {
        ++at_;
      }
    } else {
      break;
    }
  }
  return at_;
}

bool TextCursor::peek(std::string_view token) {
  offset();
  if (!rest().starts_with(token)) {
    return false;
  }
  const std::string_view after = rest().substr(token.size());
  return !isWord(token.back()) || after.empty() || !isWord(after[0]);
}

bool TextCursor::accept(std::string_view token) {
  if (!peek(token)) {
    return false;
  }
  at_ += token.size();
  return true;
}

Status TextCursor::expect(std::string_view token, std::string_view where) {
  if (accept(token)) {
    return Status::ok();
  }
  return expected("'" + std::string(token) + "' " + std::string(where));
}

bool TextCursor::peekName() {
  offset();
  return !leadingName(rest()).empty();
}

Result<std::string> TextCursor::name(std::string_view what) {
  offset();
  const std::string_view token = leadingName(rest());
  if (token.empty()) {
    return expected(what);
  }
  at_ += token.size();
  return std::string(token);
}

Result<std::string> TextCursor::string(std::string_view what) {
  if (!peekString()) {
    return expected(what);
  }
  const std::size_t begin = at_;
  std::string out;
  for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    const std::size_t escape = at_++;
    switch (at_ < text_.size() ? text_[at_] : '\0') {
      case '"':
        out += '"';
        break;
      case '\\':
        out += '\\';
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'x': {
        const int high = at_ + 2 < text_.size() ? hexDigit(text_[at_ + 1]) : -1;
        const int low = at_ + 2 < text_.size() ? hexDigit(text_[at_ + 2]) : -1;
        if (high < 0 || low < 0) {
          return errorAt(escape, "expected two hexadecimal digits after \\x");
        }
        out += static_cast<char>(high * 16 + low);
        at_ += 2;
        break;
      }
      default:
        return errorAt(escape, "unknown escape; the escapes are \\\" \\\\ \\n \\t \\r \\xHH");
    }
  }
  return errorAt(begin, "the string does not end on its line");
}

std::string_view TextCursor::numberToken() const {
  const std::string_view text = rest();
  std::size_t n = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  if (const std::string_view word = leadingName(text.substr(n)); word == "inf" || word == "nan") {
    return text.substr(0, n + word.size());
  }
  const std::size_t digits = countDigits(text, n);
  if (digits == 0) {
    return {};
  }
  n += digits;
  if (n < text.size() && text[n] == '.') {
    n += 1 + countDigits(text, n + 1);
  }
  if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
    const bool sign = n + 1 < text.size() && (text[n + 1] == '-' || text[n + 1] == '+');
    const std::size_t skip = sign ? 2 : 1;
    const std::size_t exponent = countDigits(text, n + skip);
    n += exponent == 0 ? 0 : skip + exponent;
  }
  return n < text.size() && isWord(text[n]) ? std::string_view() : text.substr(0, n);
}

bool TextCursor::peekNumber() {
  offset();
  return !numberToken().empty();
}

Result<std::int64_t> TextCursor::integer(std::string_view what) {
  const std::size_t begin = offset();
  if (numberToken().find_first_of(".eEfn") != std::string_view::npos) {
    return expected(what);
  }
  AUTOSP_ASSIGN_OR_RETURN(const Number value, number(what));
  AUTOSP_CHECK(std::holds_alternative<std::int64_t>(value),
               "a float was read as an integer at offset " + std::to_string(begin));
  return std::get<std::int64_t>(value);
}

Result<TextCursor::Number> TextCursor::number(std::string_view what) {
  const std::size_t begin = offset();
  std::string_view token = numberToken();
  if (token.empty()) {
    return expected(what);
  }
  at_ += token.size();
  if (token[0] == '+') {
    token.remove_prefix(1);
  }
  const char* end = token.data() + token.size();
  if (token.find_first_of(".eEfn") == std::string_view::npos) {
    std::int64_t value = 0;
    if (std::from_chars(token.data(), end, value).ec != std::errc()) {
      return errorAt(begin, "the integer does not fit in 64 bits");
    }
    return Number(value);
  }
  double value = 0;
  if (std::from_chars(token.data(), end, value).ec != std::errc()) {
    return errorAt(begin, "the float is out of range");
  }
  return Number(value);
}

std::string TextCursor::found() {
  if (atEnd()) {
    return "the end of the text";
  }
  if (peekString()) {
    return "a string";
  }
  const std::string_view text = rest();
  // A sign or a '%' is shown with the word that follows it.
  std::size_t n = text[0] == '%' || text[0] == '-' || text[0] == '+' ? 1 : 0;
  while (n < text.size() && (isWord(text[n]) || (n > 0 && text[n] == '.'))) {
    ++n;
  }
  if (n == 0) {
    const bool printable = text[0] > ' ' && text[0] <= '~';
    return printable ? "'" + std::string(text.substr(0, 1)) + "'"
                     : "the byte 0x" + hexByte(text[0]);
  }
  return "'" + std::string(text.substr(0, n)) + "'";
}

Diagnostic TextCursor::expected(std::string_view what) {
  const std::string shown = found();
  return errorAt(at_, "expected " + std::string(what) + ", found " + shown);
}

Diagnostic TextCursor::errorAt(std::size_t offset, std::string message) const {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text_.substr(0, offset)) {
    line += c == '\n' ? 1 : 0;
    column = c == '\n' ? 1 : column + 1;
  }
  const std::string l = std::to_string(line);
  const std::string c = std::to_string(column);
  const std::string place =
      source_.empty() ? "line " + l + ", column " + c : source_ + ":" + l + ":" + c;
  return {Severity::kError, "", "", place + ": " + message, ""};
}

bool isName(std::string_view text) {
  return !text.empty() && leadingName(text) == text;
}

std::string quoteText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        out += byte < 0x20 || byte == 0x7f ? "\\x" + hexByte(c) : std::string(1, c);
      }
    }
  }
  return out + '"';
}

std::string floatText(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string out(buffer.data(), end);
  // Digits only would read back as an integer.
  return out.find_first_of(".ein") == std::string::npos ? out + ".0" : out;
}

}  // namespace autosp
