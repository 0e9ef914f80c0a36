// The pass manager around passes of its own: order, verification, dumps, times, and whose fault an
// error is.
#include "autosp/driver/pass_manager.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "autosp/ir/parser.h"
#include "autosp/ir/printer.h"

namespace autosp::driver {
namespace {

using passes::Pass;
using passes::PassContext;

constexpr std::string_view kText = R"(autosp.graph "forward" ranks=2 {
  input %0 : f32[4] user "x"
  %1 : f32[4] = aten.relu.default(self=%0)
  %2 : f32[4] = aten.exp.default(self=%0) at "m.py:2"
  output %1 "y"
}
)";

Status nothing(ir::Graph& /*graph*/, PassContext& /*context*/) {
  return Status::ok();
}
Status removeFirst(ir::Graph& graph, PassContext& /*context*/) {
  graph.removeOp(graph.order().front());
  return Status::ok();
}
Status removeLast(ir::Graph& graph, PassContext& context) {
  context.report.remark({Severity::kRemark, "", "", "removed one", ""});
  graph.removeOp(graph.order().back());
  return Status::ok();
}
Status refuse(ir::Graph& graph, PassContext& /*context*/) {
  const ir::OpId id = graph.order().back();
  return Diagnostic{Severity::kError, graph.describe(id), graph.op(id).location, "no rule", ""};
}
Status breakInvariant(ir::Graph& graph, PassContext& /*context*/) {
  AUTOSP_CHECK(graph.ranks == 0, "ranks are counted");
  return Status::ok();
}

Pass makePass(std::string name, passes::PassFunction function, std::vector<std::string> needs = {},
              std::vector<std::string> provides = {}) {
  return {std::move(name), "", function, std::move(needs), std::move(provides)};
}

std::string readFile(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

class PassManager : public testing::Test {
 protected:
  PassManager() : dir_(testing::TempDir() + "autosp_" + name()) {
    std::filesystem::remove_all(dir_);
  }
  ~PassManager() override { std::filesystem::remove_all(dir_); }
  static std::string name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  Result<RunRecord> run(const std::vector<Pass>& sequence, const RunConfig& config = {}) {
    PassContext context{options_, report_};
    return runPasses(graph_, sequence, context, config);
  }
  std::string error(const std::vector<Pass>& sequence, const RunConfig& config = {}) {
    const Result<RunRecord> record = run(sequence, config);
    return record.isOk() ? "" : record.diagnostic().text();
  }

  std::string dir_;
  ir::Graph graph_ = ir::parse(kText).value();
  passes::Options options_;
  passes::Report report_;
};

TEST_F(PassManager, RunsInOrderAndCountsOps) {
  RunConfig config;
  double clock = 0;
  config.now = [&] { return clock += 0.25; };
  const Result<RunRecord> record =
      run({makePass("first", removeLast), makePass("second", nothing)}, config);
  ASSERT_TRUE(record.isOk());
  ASSERT_EQ(record.value().passes.size(), 2U);
  EXPECT_EQ(record.value().passes[0].ops_before, 2U);
  EXPECT_EQ(record.value().passes[0].ops_after, 1U);
  EXPECT_EQ(report_.diagnostics().size(), 1U);
  EXPECT_EQ(timingTable(record.value()),
            "pass         ms  ops\n"
            "first   250.000  2 -> 1\n"
            "second  250.000  1 -> 1\n"
            "total   500.000\n");
}

TEST_F(PassManager, NeverReadsAClockOfItsOwn) {
  const Result<RunRecord> record = run({makePass("first", nothing)});
  EXPECT_EQ(record.value().passes[0].seconds, 0);
}

TEST_F(PassManager, ChecksNeedsBeforeAnyPassRuns) {
  EXPECT_EQ(error({makePass("first", removeLast), makePass("second", nothing, {"fact"})}),
            "pass second needs 'fact', which no pass before it provides");
  EXPECT_EQ(graph_.order().size(), 2U);
  EXPECT_EQ(
      error({makePass("second", nothing, {"fact"}), makePass("first", nothing, {}, {"fact"})}),
      "pass second needs 'fact', which no pass before it provides");
  EXPECT_EQ(
      error({makePass("first", nothing, {}, {"fact"}), makePass("second", nothing, {"fact"})}), "");
  RunConfig config;
  config.assumed = {"fact"};
  EXPECT_EQ(error({makePass("second", nothing, {"fact"})}, config), "");
}

TEST_F(PassManager, StopsAfterAPass) {
  RunConfig config;
  config.stop_after = "first";
  const std::vector<Pass> sequence = {makePass("first", nothing), makePass("second", removeLast)};
  EXPECT_EQ(run(sequence, config).value().passes.size(), 1U);
  config.stop_after = "third";
  EXPECT_EQ(error(sequence, config),
            "cannot stop after 'third', which is not one of the passes to run");
}

TEST_F(PassManager, AnIllegalInputIsTheCallersFault) {
  graph_.removeOp(graph_.order().front());
  EXPECT_EQ(error({makePass("first", nothing)}),
            "output \"y\" returns %1, whose op aten.relu.default was removed");
}

TEST_F(PassManager, AnErrorOfAPassComesBackAsItIs) {
  EXPECT_EQ(error({makePass("first", refuse)}), "aten.exp.default on %2 (m.py:2): no rule");
}

TEST_F(PassManager, AnIllegalResultIsAnInternalError) {
  try {
    (void)run({makePass("first", removeFirst)});
    FAIL() << "no exception";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "in pass first: it left an illegal graph: output \"y\" returns %1, whose op "
                 "aten.relu.default was removed; set a dump directory to keep the graph before it");
  }
}

TEST_F(PassManager, AFailedCheckNamesThePassAndTheDump) {
  RunConfig config;
  config.dump_dir = dir_;
  try {
    (void)run({makePass("first", nothing), makePass("second", breakInvariant)}, config);
    FAIL() << "no exception";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("in pass second: internal error: ranks are counted")) << text;
    EXPECT_TRUE(text.ends_with("; the graph before it is in " + dir_ + "/01-first.sp")) << text;
  }
}

TEST_F(PassManager, DumpsAreReproducers) {
  options_.objective = passes::Objective::kTime;
  options_.rules = {{"a.b", "s -> s"}};
  RunConfig config;
  config.dump_dir = dir_ + "/deep";
  config.assumed = {"fact"};
  const Result<RunRecord> record = run({makePass("first", removeLast)}, config);
  ASSERT_TRUE(record.isOk());
  ASSERT_EQ(record.value().dumps.size(), 2U);
  EXPECT_EQ(readFile(record.value().dumps[0]),
            "// RUN: --assume=fact --option objective=time --option 'rules=a.b: s -> s' --first\n" +
                std::string(kText));
  EXPECT_EQ(readFile(dir_ + "/deep/01-first.sp"), "// after first\n" + ir::print(graph_));
}

TEST_F(PassManager, SaysWhereItCannotDump) {
  std::ofstream(dir_) << "a file";
  RunConfig config;
  config.dump_dir = dir_;
  EXPECT_TRUE(error({}, config).starts_with("cannot make the dump directory '" + dir_ + "'"));
}

TEST_F(PassManager, OptionsGiveTheRanks) {
  options_.ranks = 8;
  ASSERT_TRUE(run({}).isOk());
  EXPECT_EQ(graph_.ranks, 8);
}

TEST(Registry, RefusesUnknownPasses) {
  EXPECT_EQ(passes::findPasses({"remove-dead-op"}).diagnostic().text(),
            "unknown pass 'remove-dead-op' (did you mean 'remove-dead-ops'?)");
  EXPECT_TRUE(passes::findPasses({"remove-dead-ops"}).isOk());
}

}  // namespace
}  // namespace autosp::driver
