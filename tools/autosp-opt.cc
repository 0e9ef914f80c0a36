// autosp-opt: the core on text, without torch. Reads a graph, runs passes over it and prints it.
// Errors in the text, the graph or the command go to stderr with exit status 1, a fault of the core
// with 2.
//
//   autosp-opt graph.sp --pipeline=forward --dump=dir --timing
//   autosp-opt - --option objective=time --remove-dead-ops < graph.sp
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "autosp/driver/pipeline.h"
#include "autosp/ir/parser.h"
#include "autosp/ir/printer.h"
#include "autosp/support/nearest.h"

namespace {

using namespace autosp;

constexpr std::string_view kUsage =
    R"(usage: autosp-opt FILE [flags] [--PASS ...]     FILE is a graph (.sp), '-' is stdin

  --PASS               run the pass; passes run in the order given (see --list-passes)
  --pipeline=NAME      run the passes of a pipeline: forward or joint
  --to=PASS            stop after this pass
  --assume=FACT,...    facts that hold at the start, for a pass run by itself
  --ranks=N            the number of ranks, in place of the graph's
  --option NAME=VALUE  an option of the passes, see below
  --dump=DIR           write the graph before the first and after each pass
  --report             print remarks, conversions and facts to stderr
  --timing             print the time of each pass to stderr
  -o FILE              write the graph to FILE instead of stdout
  --list-passes        list the passes
  --docs               write docs/passes.md to stdout
  --help               this text

options:
)";

struct Command {
  std::string input;
  std::string output;
  std::vector<std::string> passes;
  passes::Options options;
  driver::RunConfig config;
  bool timing = false;
  bool report = false;
  bool list_passes = false;
  bool docs = false;
  bool help = false;
};

std::vector<std::string> splitAtCommas(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Reads the command line. A flag's value follows '=' or is the next argument.
class CommandReader {
 public:
  explicit CommandReader(std::vector<std::string> args) : args_(std::move(args)) {}

  Result<Command> read() {
    while (at_ < args_.size()) {
      AUTOSP_RETURN_IF_ERROR(argument(args_[at_++]));
    }
    const bool needs_input = !command_.list_passes && !command_.docs && !command_.help;
    if (needs_input && command_.input.empty()) {
      return Status::error("no graph given: name a file, or - for stdin (--help lists the flags)");
    }
    return std::move(command_);
  }

 private:
  Status argument(const std::string& arg) {
    if (arg == "-" || arg.empty() || arg[0] != '-') {
      if (!command_.input.empty()) {
        return Status::error("two graphs given: '" + command_.input + "' and '" + arg + "'");
      }
      command_.input = arg;
      return Status::ok();
    }
    const std::size_t eq = arg.find('=');
    const std::string flag = arg.substr(0, eq);
    inline_value_ =
        eq == std::string::npos ? std::nullopt : std::optional<std::string>(arg.substr(eq + 1));
    if (flag == "-o" || flag == "--to" || flag == "--dump" || flag == "--ranks" ||
        flag == "--assume" || flag == "--pipeline" || flag == "--option") {
      return flagWithValue(flag);
    }
    return plainFlag(flag);
  }

  Status flagWithValue(const std::string& flag) {
    if (!inline_value_ && at_ < args_.size()) {
      inline_value_ = args_[at_++];
    }
    if (!inline_value_ || inline_value_->empty()) {
      return Status::error(flag + " needs a value");
    }
    const std::string& value = *inline_value_;
    if (flag == "-o") {
      command_.output = value;
    } else if (flag == "--to") {
      command_.config.stop_after = value;
    } else if (flag == "--dump") {
      command_.config.dump_dir = value;
    } else if (flag == "--ranks") {
      return passes::setOption(command_.options, "ranks", value);
    } else if (flag == "--assume") {
      for (std::string& fact : splitAtCommas(value)) {
        command_.config.assumed.push_back(std::move(fact));
      }
    } else if (flag == "--pipeline") {
      AUTOSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, driver::pipelinePasses(value));
      command_.passes.insert(command_.passes.end(), names.begin(), names.end());
    } else {
      const std::size_t eq = value.find('=');
      if (eq == std::string::npos) {
        return Status::error("--option needs NAME=VALUE, found '" + value + "'");
      }
      return passes::setOption(command_.options, value.substr(0, eq), value.substr(eq + 1));
    }
    return Status::ok();
  }

  Status plainFlag(const std::string& flag) {
    struct Switch {
      std::string name;
      bool* target;
    };
    const std::vector<Switch> switches = {{"--timing", &command_.timing},
                                          {"--report", &command_.report},
                                          {"--list-passes", &command_.list_passes},
                                          {"--docs", &command_.docs},
                                          {"--help", &command_.help},
                                          {"-h", &command_.help}};
    std::vector<std::string> known = {"--to",     "--dump",     "--ranks",
                                      "--assume", "--pipeline", "--option"};
    for (const Switch& s : switches) {
      if (s.name == flag) {
        *s.target = true;
        return noValue(flag);
      }
      known.push_back(s.name);
    }
    for (const passes::Pass& pass : passes::registry()) {
      if ("--" + pass.name == flag) {
        command_.passes.push_back(pass.name);
        return noValue(flag);
      }
      known.push_back("--" + pass.name);
    }
    return Status::error("unknown flag or pass '" + flag + "'" + didYouMean(flag, known));
  }

  Status noValue(const std::string& flag) const {
    return inline_value_ ? Status::error(flag + " takes no value") : Status::ok();
  }

  std::vector<std::string> args_;
  std::size_t at_ = 0;
  std::optional<std::string> inline_value_;
  Command command_;
};

std::string usage() {
  std::string out(kUsage);
  for (const auto& [name, text] : passes::optionHelp()) {
    out += "  " + name + ": " + text + "\n";
  }
  return out;
}

std::string passList() {
  std::string out;
  for (const passes::Pass& pass : passes::registry()) {
    out += "--" + pass.name + "\n    " + pass.summary + "\n";
  }
  return out;
}

std::string factList(const std::vector<std::string>& facts) {
  std::string out;
  for (const std::string& fact : facts) {
    out += (out.empty() ? "`" : ", `") + fact + "`";
  }
  return out.empty() ? "nothing" : out;
}

Result<std::string> passDocs() {
  std::string out =
      "# Passes\n\n<!-- Generated by `autosp-opt --docs`; the source is "
      "cpp/autosp/passes/registry.cc. -->\n\n";
  for (const std::string_view pipeline : {"forward", "joint"}) {
    AUTOSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, driver::pipelinePasses(pipeline));
    out += "The " + std::string(pipeline) + " pipeline:\n\n";
    for (std::size_t i = 0; i < names.size(); ++i) {
      out += std::to_string(i + 1) + ". `" + names[i] + "`\n";
    }
    out += pipeline == "joint" ? "" : "\n";
  }
  for (const passes::Pass& pass : passes::registry()) {
    out += "\n## " + pass.name + "\n\n" + pass.summary + "\n\n";
    out += "Needs " + factList(pass.needs) + "; provides " + factList(pass.provides) + ".\n";
  }
  return out;
}

Result<std::string> readInput(const std::string& name) {
  if (name == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream in(name, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    return Status::error("cannot read '" + name + "'");
  }
  return text.str();
}

Status writeOutput(const std::string& name, const std::string& text) {
  if (name.empty()) {
    std::cout << text << std::flush;
    return std::cout ? Status::ok() : Status::error("cannot write to stdout");
  }
  std::ofstream out(name, std::ios::binary);
  out << text;
  out.close();
  return out ? Status::ok() : Status::error("cannot write '" + name + "'");
}

Status execute(const Command& command) {
  if (command.help) {
    return writeOutput("", usage());
  }
  if (command.list_passes) {
    return writeOutput("", passList());
  }
  if (command.docs) {
    AUTOSP_ASSIGN_OR_RETURN(const std::string docs, passDocs());
    return writeOutput(command.output, docs);
  }
  AUTOSP_ASSIGN_OR_RETURN(const std::string text, readInput(command.input));
  AUTOSP_ASSIGN_OR_RETURN(ir::Graph graph,
                          ir::parse(text, command.input == "-" ? "<stdin>" : command.input));
  AUTOSP_ASSIGN_OR_RETURN(const std::vector<passes::Pass> sequence,
                          passes::findPasses(command.passes));
  driver::RunConfig config = command.config;
  if (command.timing) {
    config.now = [] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      return std::chrono::duration<double>(now).count();
    };
  }
  passes::Report report;
  passes::PassContext context{command.options, report};
  AUTOSP_ASSIGN_OR_RETURN(const driver::RunRecord record,
                          driver::runPasses(graph, sequence, context, config));
  if (command.report) {
    std::cerr << report.text();
  }
  if (command.timing) {
    std::cerr << driver::timingTable(record);
  }
  return writeOutput(command.output, ir::print(graph));
}

Status runCommand(std::vector<std::string> args) {
  AUTOSP_ASSIGN_OR_RETURN(const Command command, CommandReader(std::move(args)).read());
  return execute(command);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Status status = runCommand(std::vector<std::string>(argv + 1, argv + argc));
    if (!status.isOk()) {
      std::cerr << status.diagnostic().text() << "\n";
      return 1;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "autosp-opt: " << error.what() << "\n";
    return 2;
  }
}
