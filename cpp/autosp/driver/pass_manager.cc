#include "autosp/driver/pass_manager.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "autosp/ir/printer.h"
#include "autosp/ir/verifier.h"

namespace autosp::driver {
namespace {

namespace fs = std::filesystem;

// Writes numbered dumps into a directory; does nothing without one.
class Dumper {
 public:
  Dumper(std::string dir, RunRecord& record) : dir_(std::move(dir)), record_(record) {}

  Status open() const {
    std::error_code error;
    if (!dir_.empty() && !fs::is_directory(dir_, error)) {
      fs::create_directories(dir_, error);
      if (error) {
        return Status::error("cannot make the dump directory '" + dir_ + "': " + error.message());
      }
    }
    return Status::ok();
  }

  Status write(const std::string& name, const std::string& heading, const ir::Graph& graph) {
    if (dir_.empty()) {
      return Status::ok();
    }
    const std::string number = std::to_string(record_.dumps.size());
    const std::string file = (number.size() < 2 ? "0" : "") + number + "-" + name + ".sp";
    const std::string path = (fs::path(dir_) / file).string();
    std::ofstream out(path, std::ios::binary);
    out << "// " << heading << "\n" << ir::print(graph);
    out.close();
    if (!out) {
      return Status::error("cannot write the dump '" + path + "'");
    }
    record_.dumps.push_back(path);
    return Status::ok();
  }

  // Where the graph before the pass is to be found, for the text of an internal error.
  std::string lastDump() const {
    return record_.dumps.empty() ? "set a dump directory to keep the graph before it"
                                 : "the graph before it is in " + record_.dumps.back();
  }

 private:
  std::string dir_;
  RunRecord& record_;
};

// The flags that make autosp-opt do the same.
std::string commandLine(const std::vector<passes::Pass>& sequence, const passes::Options& options,
                        const RunConfig& config) {
  std::string out = "RUN:";
  for (const std::string& fact : config.assumed) {
    out += " --assume=" + fact;
  }
  for (const auto& [name, value] : passes::changedOptions(options)) {
    const bool plain = value.find_first_of(" ;\"") == std::string::npos;
    out += " --option " + (plain ? name + "=" + value : "'" + name + "=" + value + "'");
  }
  for (const passes::Pass& pass : sequence) {
    out += " --" + pass.name;
  }
  return out;
}

[[noreturn]] void failPass(const passes::Pass& pass, const std::string& message,
                           const Dumper& dumper) {
  throw InternalError("in pass " + pass.name + ": " + message + "; " + dumper.lastDump());
}

Status runPass(ir::Graph& graph, const passes::Pass& pass, passes::PassContext& context,
               const Dumper& dumper) {
  try {
    return pass.function(graph, context);
  } catch (const InternalError& error) {
    failPass(pass, error.what(), dumper);
  }
}

std::string milliseconds(double seconds) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3f", seconds * 1e3);
  return buffer.data();
}

}  // namespace

Status checkOrder(const std::vector<passes::Pass>& sequence,
                  const std::vector<std::string>& assumed) {
  std::set<std::string> facts(assumed.begin(), assumed.end());
  for (const passes::Pass& pass : sequence) {
    for (const std::string& need : pass.needs) {
      if (!facts.contains(need)) {
        std::string from;
        for (const passes::Pass& other : passes::registry()) {
          if (std::find(other.provides.begin(), other.provides.end(), need) !=
              other.provides.end()) {
            from += (from.empty() ? "" : " or ") + other.name;
          }
        }
        return Status::error("pass " + pass.name + " needs '" + need +
                             "', which no pass before it provides" +
                             (from.empty() ? "" : "; run " + from + " first"));
      }
    }
    facts.insert(pass.provides.begin(), pass.provides.end());
  }
  return Status::ok();
}

Result<RunRecord> runPasses(ir::Graph& graph, const std::vector<passes::Pass>& sequence,
                            passes::PassContext& context, const RunConfig& config) {
  std::vector<passes::Pass> chosen = sequence;
  if (!config.stop_after.empty()) {
    const auto last = std::find_if(chosen.begin(), chosen.end(), [&](const passes::Pass& pass) {
      return pass.name == config.stop_after;
    });
    if (last == chosen.end()) {
      return Status::error("cannot stop after '" + config.stop_after +
                           "', which is not one of the passes to run");
    }
    chosen.erase(last + 1, chosen.end());
  }
  AUTOSP_RETURN_IF_ERROR(checkOrder(chosen, config.assumed));
  if (context.options.ranks > 0) {
    graph.ranks = context.options.ranks;
  }
  AUTOSP_RETURN_IF_ERROR(ir::verify(graph));
  RunRecord record;
  Dumper dumper(config.dump_dir, record);
  AUTOSP_RETURN_IF_ERROR(dumper.open());
  AUTOSP_RETURN_IF_ERROR(
      dumper.write("input", commandLine(chosen, context.options, config), graph));
  const auto now = [&] { return config.now ? config.now() : 0.0; };
  for (const passes::Pass& pass : chosen) {
    PassRun run{pass.name, 0, graph.order().size(), 0};
    const double start = now();
    AUTOSP_RETURN_IF_ERROR(runPass(graph, pass, context, dumper));
    run.seconds = now() - start;
    run.ops_after = graph.order().size();
    if (const Status legal = ir::verify(graph); !legal.isOk()) {
      failPass(pass, "it left an illegal graph: " + legal.diagnostic().text(), dumper);
    }
    AUTOSP_RETURN_IF_ERROR(dumper.write(pass.name, "after " + pass.name, graph));
    record.passes.push_back(std::move(run));
  }
  return record;
}

std::string timingTable(const RunRecord& record) {
  std::vector<std::array<std::string, 3>> rows = {{"pass", "ms", "ops"}};
  double total = 0;
  for (const PassRun& run : record.passes) {
    total += run.seconds;
    rows.push_back({run.pass, milliseconds(run.seconds),
                    std::to_string(run.ops_before) + " -> " + std::to_string(run.ops_after)});
  }
  rows.push_back({"total", milliseconds(total), ""});
  std::array<std::size_t, 2> width{};
  for (const auto& row : rows) {
    width[0] = std::max(width[0], row[0].size());
    width[1] = std::max(width[1], row[1].size());
  }
  std::string out;
  for (const auto& row : rows) {
    out += row[0] + std::string(width[0] - row[0].size() + 2 + width[1] - row[1].size(), ' ');
    out += row[1] + (row[2].empty() ? "" : "  " + row[2]) + "\n";
  }
  return out;
}

}  // namespace autosp::driver
