#include "autosp/passes/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "autosp/support/nearest.h"
#include "autosp/support/text_cursor.h"

namespace autosp::passes {
namespace {

// How one option is read, written and explained. `set` answers whether it understood the text.
struct OptionRow {
  std::string_view name;
  std::string_view values;
  std::string_view meaning;
  bool (*set)(Options&, std::string_view);
  std::string (*get)(const Options&);
};

std::optional<std::int64_t> parseInt(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Sets `target` to the position of the text among the words, as an enum or a bool.
template <typename T>
bool chooseWord(T& target, std::string_view text, std::initializer_list<std::string_view> words) {
  const auto* at = std::find(words.begin(), words.end(), text);
  if (at == words.end()) {
    return false;
  }
  target = static_cast<T>(at - words.begin());
  return true;
}

bool setAttention(Options& options, std::string_view text) {
  const bool named = text == "auto" || text == "ulysses" || text == "gather" || text == "ring";
  if (!named) {
    const std::size_t by = text.find('x');
    if (!text.starts_with("2d:") || by == std::string_view::npos) {
      return false;
    }
    const auto heads = parseInt(text.substr(3, by - 3));
    const auto ring = parseInt(text.substr(by + 1));
    if (!heads || !ring || *heads < 1 || *ring < 1) {
      return false;
    }
  }
  options.attention = std::string(text);
  return true;
}

bool setSequenceDims(Options& options, std::string_view text) {
  std::vector<std::pair<std::string, std::int64_t>> dims;
  if (text != "auto") {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string_view item = text.substr(begin, end - begin);
      const std::size_t eq = item.rfind('=');
      const auto dim = eq == std::string_view::npos ? std::nullopt : parseInt(item.substr(eq + 1));
      if (!dim || eq == 0) {
        return false;
      }
      dims.emplace_back(item.substr(0, eq), *dim);
      begin = end + 1;
    }
  }
  options.sequence_dims = std::move(dims);
  return true;
}

std::string sequenceDimsText(const Options& options) {
  std::string out;
  for (const auto& [name, dim] : options.sequence_dims) {
    out += (out.empty() ? "" : ",") + name + "=" + std::to_string(dim);
  }
  return out.empty() ? "auto" : out;
}

// Rules stand between semicolons, each "op: spelling".
bool setRules(Options& options, std::string_view text) {
  auto trimmed = [](std::string_view part) {
    const std::size_t begin = std::min(part.find_first_not_of(' '), part.size());
    return std::string(part.substr(begin, part.find_last_not_of(' ') + 1 - begin));
  };
  std::vector<std::pair<std::string, std::string>> rules;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) {
      return false;
    }
    rules.emplace_back(trimmed(item.substr(0, colon)), trimmed(item.substr(colon + 1)));
    if (rules.back().first.empty() || rules.back().second.empty()) {
      return false;
    }
    begin = end + 1;
  }
  options.rules = std::move(rules);
  return true;
}

std::string rulesText(const Options& options) {
  std::string out;
  for (const auto& [op, spelling] : options.rules) {
    out.append(out.empty() ? "" : "; ").append(op).append(": ").append(spelling);
  }
  return out;
}

// Flop/s, bytes/s of memory, bytes/s of a link, seconds of latency, seconds of a launch (may be
// left out).
bool setMachine(Options& options, std::string_view text) {
  if (text == "default") {
    options.machine = {};
    return true;
  }
  std::array<double, 5> figures{0, 0, 0, 0, cost::Machine().launch};
  const auto given = static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1;
  if (given != 4 && given != 5) {
    return false;
  }
  for (std::size_t i = 0; i < given; ++i) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, figures[i]);
    if (error != std::errc() || stop != text.data() + end || figures[i] < 0 ||
        (i < 3 && figures[i] == 0)) {
      return false;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  options.machine = {figures[0], figures[1], figures[2], figures[3], figures[4]};
  return true;
}

std::string machineText(const Options& options) {
  const cost::Machine& machine = options.machine;
  return machine == cost::Machine{}
             ? "default"
             : floatText(machine.flops) + "," + floatText(machine.memory) + "," +
                   floatText(machine.link) + "," + floatText(machine.latency) +
                   (machine.launch == cost::Machine().launch ? ""
                                                             : "," + floatText(machine.launch));
}

bool setRanks(Options& options, std::string_view text) {
  const auto ranks = parseInt(text);
  if (!ranks || *ranks < 0 || *ranks > 1'000'000) {
    return false;
  }
  options.ranks = static_cast<int>(*ranks);
  return true;
}

bool setCheckpoint(Options& options, std::string_view text) {
  if (text != "sac" && text != "stock" && text != "full") {
    return false;
  }
  options.checkpoint = std::string(text);
  return true;
}

bool setMemoryBudget(Options& options, std::string_view text) {
  if (text == "none") {
    options.memory_budget.reset();
    return true;
  }
  Options::MemoryBudget budget;
  if (text.ends_with('%')) {
    const char* end = text.data() + text.size() - 1;
    const auto [stop, error] = std::from_chars(text.data(), end, budget.percent);
    if (error != std::errc() || stop != end || !(budget.percent > 0) || budget.percent > 100) {
      return false;
    }
  } else {
    const auto bytes = parseInt(text);
    if (!bytes || *bytes < 1) {
      return false;
    }
    budget.bytes = *bytes;
  }
  options.memory_budget = budget;
  return true;
}

std::string memoryBudgetText(const Options& options) {
  const auto& budget = options.memory_budget;
  return !budget               ? "none"
         : budget->percent > 0 ? floatText(budget->percent) + "%"
                               : std::to_string(budget->bytes);
}

// A number that is at least `least`.
template <std::int64_t Options::* field, std::int64_t least>
bool setNumber(Options& options, std::string_view text) {
  const auto value = parseInt(text);
  if (!value || *value < least) {
    return false;
  }
  options.*field = *value;
  return true;
}

constexpr std::array<OptionRow, 16> kRows = {{
    {"objective", "memory or time",
     "memory: cut what carries the sequence wherever a rule can; time: the fastest plan",
     [](Options& o, std::string_view v) { return chooseWord(o.objective, v, {"memory", "time"}); },
     [](const Options& o) -> std::string {
       return o.objective == Objective::kMemory ? "memory" : "time";
     }},
    {"gradients", "reduced or partial",
     "reduced: .grad is whole on every rank; partial: a sum is left to DDP",
     [](Options& o, std::string_view v) {
       return chooseWord(o.gradients_partial, v, {"reduced", "partial"});
     },
     [](const Options& o) -> std::string { return o.gradients_partial ? "partial" : "reduced"; }},
    {"on_unsupported", "replicate or error",
     "what happens to an op without a rule: its operands are made whole, or it is refused",
     [](Options& o, std::string_view v) {
       return chooseWord(o.on_unsupported_error, v, {"replicate", "error"});
     },
     [](const Options& o) -> std::string {
       return o.on_unsupported_error ? "error" : "replicate";
     }},
    {"outputs", "auto, whole or cut",
     "auto: float outputs stay cut when the graph also returns a scalar loss",
     [](Options& o, std::string_view v) {
       return chooseWord(o.outputs, v, {"auto", "whole", "cut"});
     },
     [](const Options& o) -> std::string {
       return o.outputs == OutputForms::kAuto    ? "auto"
              : o.outputs == OutputForms::kWhole ? "whole"
                                                 : "cut";
     }},
    {"attention", "auto, ulysses, gather, ring or 2d:UxR",
     "how attention runs; U ranks on heads times R on the ring", setAttention,
     [](const Options& o) { return o.attention; }},
    {"sequence_dims", "auto or input=dim,input=dim",
     "the sequence dim of inputs; auto: found from attention", setSequenceDims, sequenceDimsText},
    {"rules", "op: spelling; op: spelling",
     "sharding rules of the user's own ops, as mylib.rope.default: b h s d, s d -> b h s d",
     setRules, rulesText},
    {"checkpoint", "sac, stock or full",
     "what is saved for the backward; stock: what the graph marks as saved", setCheckpoint,
     [](const Options& o) { return o.checkpoint; }},
    {"memory_budget", "none, bytes or a share as 60%",
     "the simulated peak may not be larger; a share is of the marked plan's peak", setMemoryBudget,
     memoryBudgetText},
    {"fused", "true or false", "a fusing compiler runs the programs",
     [](Options& o, std::string_view v) { return chooseWord(o.fused, v, {"false", "true"}); },
     [](const Options& o) -> std::string { return o.fused ? "true" : "false"; }},
    {"on_cpu", "true or false", "the programs run on a CPU",
     [](Options& o, std::string_view v) { return chooseWord(o.on_cpu, v, {"false", "true"}); },
     [](const Options& o) -> std::string { return o.on_cpu ? "true" : "false"; }},
    {"repeat_collectives", "true or false", "the backward may run collectives again",
     [](Options& o, std::string_view v) {
       return chooseWord(o.repeat_collectives, v, {"false", "true"});
     },
     [](const Options& o) -> std::string { return o.repeat_collectives ? "true" : "false"; }},
    {"rounding", "an integer", "allocations are multiples of this many bytes",
     setNumber<&Options::rounding, 1>, [](const Options& o) { return std::to_string(o.rounding); }},
    {"sequence_length", "an integer", "of the whole sequence, for messages; 0: not known",
     setNumber<&Options::sequence_length, 0>,
     [](const Options& o) { return std::to_string(o.sequence_length); }},
    {"machine", "default | FLOPS,MEMORY,LINK,LATENCY[,LAUNCH]",
     "what prices are for: flop/s, bytes/s of memory and of a link, seconds a collective and a "
     "kernel wait",
     setMachine, machineText},
    {"ranks", "an integer", "size of the sp axis; 0: as the graph says", setRanks,
     [](const Options& o) { return std::to_string(o.ranks); }},
}};

}  // namespace

Status setOption(Options& options, std::string_view name, std::string_view value) {
  std::vector<std::string> names;
  for (const OptionRow& row : kRows) {
    if (row.name == name) {
      return row.set(options, value)
                 ? Status::ok()
                 : Status::error("option " + std::string(name) + ": expected " +
                                 std::string(row.values) + ", found '" + std::string(value) + "'");
    }
    names.emplace_back(row.name);
  }
  std::string all;
  for (const std::string& known : names) {
    all += (all.empty() ? "" : ", ") + known;
  }
  return Status::error("unknown option '" + std::string(name) + "'" + didYouMean(name, names) +
                       "; the options are " + all);
}

std::vector<std::pair<std::string, std::string>> changedOptions(const Options& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionRow& row : kRows) {
    if (std::string value = row.get(options); value != row.get(Options())) {
      out.emplace_back(row.name, std::move(value));
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> optionHelp() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionRow& row : kRows) {
    const std::string absent = row.get(Options());
    out.emplace_back(row.name, std::string(row.values) + " (default " +
                                   (absent.empty() ? "none" : absent) + "); " +
                                   std::string(row.meaning));
  }
  return out;
}

}  // namespace autosp::passes
