// Tests of the program's checks: whatever does not fit is refused with the node's number.
#include "core/program.h"

#include "test/check.h"

namespace tokengrad {
namespace {

constexpr Kind kNumber = Kind::kNumber;
constexpr Kind kMask = Kind::kMask;

/// mean(exp(logprobs)) over the batch.
ProgramSpec spec() {
  return {.nodes = {{"input", "", {}, {}, Axis::kToken, kNumber},
                    {"exp", "exp", {0}, {}, Axis::kToken, kNumber},
                    {"mean", "", {1}, {}, Axis::kBatch, kNumber}},
          .inputs = {0},
          .variable = 0,
          .loss = 2,
          .metrics = {2}};
}

bool refuses(void (*spoil)(ProgramSpec&)) {
  ProgramSpec given = spec();
  spoil(given);
  return test::code_of([&] { Program{given}; }) == "ERR_PROGRAM";
}

TEST(program_that_fits_knows_when_values_can_go) {
  const Program program(spec());
  EXPECT(program.nodes()[1].releases == std::vector<size_t>{0});
  EXPECT(program.nodes()[2].releases == std::vector<size_t>{1});
}

TEST(program_refuses_wrong_structure) {
  EXPECT(refuses([](ProgramSpec& given) { given.nodes.clear(); }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {1}; }));  // itself
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {2}; }));  // a later one
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {0, 0}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].aten = ""; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].aten = "relu_"; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[2].aten = "mean"; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[2].attributes = {{"index", 0}}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {0, 0}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {1}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {77}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.variable = 1; }));
  EXPECT(refuses([](ProgramSpec& given) { given.loss = 1; }));
  EXPECT(refuses([](ProgramSpec& given) { given.loss = 3; }));
  EXPECT(refuses([](ProgramSpec& given) { given.metrics = {0}; }));
}

TEST(program_refuses_wrong_axes_and_kinds) {
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].axis = Axis::kSample; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[0].axis = Axis::kSample; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[0].kind = kMask; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[2].kind = kMask; }));
  const auto refuses_node = [](NodeSpec node) {
    ProgramSpec given = spec();
    given.nodes.push_back(std::move(node));
    return test::code_of([&] { Program{given}; }) == "ERR_PROGRAM";
  };
  EXPECT(refuses_node({"spread", "", {2}, {}, Axis::kBatch, kNumber}));
  EXPECT(refuses_node({"spread", "", {1}, {}, Axis::kSample, kNumber}));
  EXPECT(refuses_node({"spread", "", {2}, {}, Axis::kToken, kMask}));
  EXPECT(refuses_node({"sum", "", {2}, {}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"max", "", {1}, {}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"member", "", {1}, {{"index", 0}}, Axis::kGroup, kNumber}));
  EXPECT(refuses_node({"indicator", "", {1}, {}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"constant", "", {}, {{"value", 1}}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"constant", "", {}, {{"worth", 1}}, Axis::kBatch, kNumber}));
  EXPECT(!refuses_node({"spread", "", {2}, {}, Axis::kToken, kNumber}));
}

TEST(program_refuses_wrong_members) {
  for (const double index : {-1.0, 0.5, 1e300, std::nan("")}) {
    ProgramSpec given = spec();
    given.nodes.push_back({"sum", "", {1}, {}, Axis::kSample, kNumber});
    given.nodes.push_back({"member", "", {3}, {{"index", index}}, Axis::kGroup, kNumber});
    EXPECT_CODE("ERR_PROGRAM", Program{given});
  }
}

TEST(program_says_which_node_is_wrong) {
  ProgramSpec given = spec();
  given.nodes[1].aten = "no_such_operator";
  try {
    Program{given};
  } catch (const Error& error) {
    EXPECT_EQUAL(test::fact<double>(error, "node", -1), 1);
    return;
  }
  EXPECT(false);
}

}  // namespace
}  // namespace tokengrad
