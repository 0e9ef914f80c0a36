// Rules by spelling: the parser and the binding to the types of one op.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "autosp/sharding/rule_table.h"
#include "autosp/support/check.h"

namespace autosp::sharding {
namespace {

constexpr std::string_view kDots = "...";
constexpr std::array<std::pair<std::string_view, FactorKind>, 3> kClauses = {
    {{"sum", FactorKind::kSum}, {"mean", FactorKind::kMean}, {"whole", FactorKind::kWhole}}};

const FactorKind* clauseKind(std::string_view word) {
  for (const auto& [name, kind] : kClauses) {
    if (name == word) {
      return &kind;
    }
  }
  return nullptr;
}

bool isNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool isNamePart(char c) { return isNameStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

}  // namespace

// spelling := operands "->" results clauses, by recursive descent. The first error is kept.
class SpellingParser {
 public:
  explicit SpellingParser(std::string_view text) : text_(text) {}

  Result<SpelledRule> parse() {
    SpelledRule rule;
    rule.spelling_ = text_;
    const bool listed = atList();
    pos_ += listed ? 1 : 0;
    terms(rule.operands_, false);
    if (listed) {
      expect(")", "a factor name, '...', '1', ',' or ')'");
    }
    expect("->", "a factor name, '...', '1', ',' or '->'");
    terms(rule.results_, true);
    while (!error_ && peek() != '\0') {
      clause(rule);
    }
    if (error_) {
      return *error_;
    }
    return rule;
  }

 private:
  void skipBlanks() {
    while (pos_ < text_.size() && text_[pos_] == ' ') {
      ++pos_;
    }
  }
  char peek() {
    skipBlanks();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool ahead(std::string_view token) {
    skipBlanks();
    return text_.substr(pos_).starts_with(token);
  }
  bool take(std::string_view token) {
    const bool found = ahead(token);
    pos_ += found ? token.size() : 0;
    return found;
  }
  // A parenthesis around all operands; "()" is a tensor without dims.
  bool atList() {
    if (peek() != '(') {
      return false;
    }
    const auto next = text_.find_first_not_of(' ', pos_ + 1);
    return next == std::string_view::npos || text_[next] != ')';
  }
  std::string wordAhead() {
    skipBlanks();
    std::size_t end = pos_;
    if (end < text_.size() && isNameStart(text_[end])) {
      while (end < text_.size() && isNamePart(text_[end])) {
        ++end;
      }
    }
    return std::string(text_.substr(pos_, end - pos_));
  }

  void fail(std::size_t position, const std::string& message, std::string remedy = "") {
    if (!error_) {
      error_ = Diagnostic{Severity::kError, "", "",
                          "in rule '" + std::string(text_) + "': position " +
                              std::to_string(position) + ": " + message,
                          std::move(remedy)};
    }
  }
  void failExpected(const std::string& what) {
    const char found = peek();
    fail(pos_, "expected " + what + ", found " +
                   (found == '\0' ? std::string("the end") : "'" + std::string(1, found) + "'"));
  }
  void expect(std::string_view token, const std::string& what) {
    if (!error_ && !take(token)) {
      failExpected(what);
    }
  }

  void terms(std::vector<SpelledRule::Term>& out, bool results) {
    do {
      out.push_back(term(results));
    } while (!error_ && take(","));
  }

  SpelledRule::Term term(bool result) {
    SpelledRule::Term out;
    if (take("(")) {
      expect(")", "')': a dim is one factor, and '()' a tensor without dims");
      return out;
    }
    while (!error_) {
      const char next = peek();
      const std::size_t start = pos_;
      if (take(kDots)) {
        if (!out.names.empty()) {
          fail(start, "'...' stands for leading dims and comes first");
        }
        name(out, std::string(kDots), start, result);
      } else if (next == '1' && (pos_ + 1 == text_.size() || !isNamePart(text_[pos_ + 1]))) {
        ++pos_;
        out.names.push_back("1");
      } else if (const std::string word = wordAhead();
                 !word.empty() && (!result || out.names.empty() || !clauseKind(word))) {
        pos_ += word.size();
        name(out, word, start, result);
      } else {
        break;
      }
    }
    if (out.names.empty()) {
      failExpected("a factor name, '...' or '1'");
    }
    return out;
  }

  void name(SpelledRule::Term& out, const std::string& word, std::size_t at, bool result) {
    if (clauseKind(word)) {
      fail(at, "'" + word + "' begins a clause and names no factor");
    }
    if (std::count(out.names.begin(), out.names.end(), word) > 0) {
      fail(at, "factor '" + word + "' stands twice in one tensor");
    }
    if (!result) {
      known_.push_back(word);
    } else if (!isKnown(word)) {
      fail(at, "factor '" + word + "' stands in no operand", "Write '1' for a dim that is never cut");
    }
    out.names.push_back(word);
  }

  bool isKnown(const std::string& word) const {
    return std::find(known_.begin(), known_.end(), word) != known_.end();
  }

  void clause(SpelledRule& rule) {
    take(",");
    const std::string word = wordAhead();
    const FactorKind* kind = clauseKind(word);
    if (!kind) {
      failExpected("'sum', 'mean' or 'whole'");
      return;
    }
    pos_ += word.size();
    bool any = false;
    auto next = [&] { return ahead(kDots) ? std::string(kDots) : wordAhead(); };
    for (std::string factor = next(); !error_ && !factor.empty() && !clauseKind(factor);
         factor = next()) {
      if (!isKnown(factor)) {
        fail(pos_, "factor '" + factor + "' stands in no operand");
      }
      pos_ += factor.size();
      rule.kinds_.emplace_back(factor, *kind);
      any = true;
    }
    if (!any) {
      failExpected("a factor name");
    }
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  std::vector<std::string> known_;
  std::optional<Diagnostic> error_;
};

Result<SpelledRule> SpelledRule::parse(std::string_view spelling) {
  return SpellingParser(spelling).parse();
}

namespace {

using Sizes = std::map<std::string, std::int64_t>;

bool isLeading(const std::string& name) { return name[0] == '.'; }

// One name a dim; the leading dims of "..." are numbered from the right, "..0" being the last.
std::optional<std::vector<std::string>> dimNames(const std::vector<std::string>& names,
                                                 std::size_t rank) {
  const bool dots = !names.empty() && names[0] == kDots;
  const std::size_t named = names.size() - (dots ? 1 : 0);
  if (rank < named || (!dots && rank != named)) {
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (std::size_t i = rank - named; i > 0; --i) {
    out.push_back(".." + std::to_string(i - 1));
  }
  out.insert(out.end(), names.end() - static_cast<std::ptrdiff_t>(named), names.end());
  return out;
}

// Notes the sizes of a tensor's dims; false where they contradict those met before.
bool measure(const std::vector<std::string>& names, const ir::TensorType& type, bool result,
             Sizes& sizes) {
  for (std::size_t d = 0; d < names.size(); ++d) {
    if (names[d] == "1") {
      continue;
    }
    const std::int64_t size = type.dim(d);
    const auto [at, added] = sizes.emplace(names[d], size);
    if (added && result) {
      return false;
    }
    if (at->second != size) {
      if (result || !isLeading(names[d]) || (size != 1 && at->second != 1)) {
        return false;
      }
      at->second = std::max(at->second, size);
    }
  }
  return true;
}

}  // namespace

std::optional<OpRule> SpelledRule::bind(const ir::Graph& graph, const ir::Op& op) const {
  const std::vector<ir::ValueId> operands = op.operands();
  if (operands.size() != operands_.size() || op.results.size() != results_.size()) {
    return std::nullopt;
  }
  Sizes sizes;
  std::vector<std::vector<std::string>> names;
  auto read = [&](const std::vector<Term>& terms, const std::vector<ir::ValueId>& values,
                  bool result) {
    for (std::size_t k = 0; k < terms.size(); ++k) {
      auto dims = dimNames(terms[k].names, graph.type(values[k]).rank());
      if (!dims || !measure(*dims, graph.type(values[k]), result, sizes)) {
        return false;
      }
      names.push_back(std::move(*dims));
    }
    return true;
  };
  if (!read(operands_, operands, false) || !read(results_, op.results, true)) {
    return std::nullopt;
  }

  OpRule rule;
  std::map<std::string, int> factors;
  auto factorOf = [&](const std::string& name) {
    const auto [at, added] = factors.emplace(name, 0);
    if (added) {
      const auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& row) {
        return row.first == name || (row.first == kDots && isLeading(name));
      });
      at->second = rule.addFactor(name, sizes.at(name),
                                  kind == kinds_.end() ? FactorKind::kPass : kind->second);
    }
    return at->second;
  };
  auto mapOf = [&](const std::vector<std::string>& dims, ir::ValueId value) {
    TensorMap map(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] != "1" && graph.type(value).dim(d) != 1) {
        map[d].factors = {factorOf(dims[d])};
      }
    }
    return map;
  };
  for (std::size_t k = 0; k < operands.size(); ++k) {
    rule.operands.push_back(mapOf(names[k], operands[k]));
  }
  for (std::size_t k = 0; k < op.results.size(); ++k) {
    rule.results.push_back(mapOf(names[operands.size() + k], op.results[k]));
  }
  return rule;
}

}  // namespace autosp::sharding
