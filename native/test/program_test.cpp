// Tests of the program's checks: whatever does not fit is refused with the node's number.
#include "core/program.h"

#include "test/check.h"

namespace tokengrad {
namespace {

constexpr Kind kNumber = Kind::kNumber;
constexpr Kind kMask = Kind::kMask;

/// The sum of exp(logprobs) over the batch.
ProgramSpec spec() {
  return {.nodes = {{"input", "", {}, {}, Axis::kToken, kNumber},
                    {"exp", "exp", {0}, {}, Axis::kToken, kNumber},
                    {"sum", "", {1}, {}, Axis::kBatch, kNumber},
                    {"neg", "neg", {1}, {}, Axis::kToken, kNumber}},
          .inputs = {0},
          .variable = 0,
          .loss = 2,
          .metrics = {2},
          .gradient = 3,
          .forward = 3};
}

bool refuses(void (*spoil)(ProgramSpec&)) {
  ProgramSpec given = spec();
  spoil(given);
  return test::code_of([&] { Program{given}; }) == "ERR_PROGRAM";
}

TEST(program_that_fits_knows_when_values_can_go) {
  const Program program(spec());
  EXPECT(program.nodes()[1].releases == std::vector<size_t>{0});
  EXPECT(program.nodes()[2].releases.empty());
  EXPECT(program.nodes()[3].releases == std::vector<size_t>{1});
  ProgramSpec kept = spec();
  kept.outputs = {1};
  EXPECT(Program(kept).nodes()[3].releases.empty());
}

TEST(program_refuses_wrong_structure) {
  EXPECT(refuses([](ProgramSpec& given) { given.nodes.clear(); }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {1}; }));  // itself
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {2}; }));  // a later one
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].inputs = {0, 0}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].aten = ""; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[1].aten = "relu_"; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[2].aten = "sum"; }));
  EXPECT(refuses([](ProgramSpec& given) { given.nodes[2].attributes = {{"index", 0}}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {0, 0}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {1}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.inputs = {77}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.variable = 1; }));
  EXPECT(refuses([](ProgramSpec& given) { given.loss = 1; }));
  EXPECT(refuses([](ProgramSpec& given) { given.loss = 77; }));
  EXPECT(refuses([](ProgramSpec& given) { given.metrics = {0}; }));
  EXPECT(refuses([](ProgramSpec& given) { given.gradient = 2; }));
  EXPECT(refuses([](ProgramSpec& given) { given.gradient = 77; }));
  EXPECT(refuses([](ProgramSpec& given) { given.forward = 2; }));
  EXPECT(refuses([](ProgramSpec& given) { given.forward = 77; }));
  EXPECT(refuses([](ProgramSpec& given) { given.outputs = {77}; }));
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
  EXPECT(refuses_node({"members", "", {}, {{"index", 0}}, Axis::kSample, kNumber}));
  EXPECT(refuses_node({"members", "", {1}, {{"index", 0}}, Axis::kGroup, kNumber}));
  EXPECT(refuses_node({"gather", "", {1, 1}, {}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"scatter", "", {2, 2}, {}, Axis::kSample, kNumber}));
  EXPECT(refuses_node({"argsort", "", {1}, {{"within", 0}}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"rank", "", {1}, {{"within", 3}}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"shift", "", {1}, {{"offset", 0.5}}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"shift", "", {2}, {{"offset", 1}}, Axis::kBatch, kNumber}));
  EXPECT(refuses_node({"scale", "", {1, 2}, {}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"indicator", "", {1}, {}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"constant", "", {}, {{"value", 1}}, Axis::kToken, kNumber}));
  EXPECT(refuses_node({"constant", "", {}, {{"worth", 1}}, Axis::kBatch, kNumber}));
  EXPECT(!refuses_node({"spread", "", {2}, {}, Axis::kToken, kNumber}));
}

TEST(program_refuses_wrong_members) {
  for (const double index : {-1.0, 0.5, 1e300, std::nan("")}) {
    ProgramSpec given = spec();
    given.nodes.push_back({"members", "", {}, {{"index", index}}, Axis::kGroup, kNumber});
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
