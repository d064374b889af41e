// Tests of checkpoints that meet or exceed the bounds. The reader and the writer both check these bounds.

#include <gmock/gmock.h>

#include <map>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_format.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::small_state;
using testing::TemporaryDirectory;

/// Returns a state for each bound of CheckpointBounds. The state meets the bound exactly. If `beyond` is true, it
/// exceeds the bound by one instead.
std::map<std::string, CheckpointState> states_at_bounds(bool beyond) {
  const std::size_t more = beyond ? 1 : 0;
  std::map<std::string, CheckpointState> states;
  const auto add = [&](const std::string& bound, const auto& change) {
    CheckpointState state = small_state();
    change(state);
    states.emplace(bound, std::move(state));
  };
  const auto add_array = [&](const std::string& bound, NamedArray array) {
    add(bound, [&](CheckpointState& state) { state.variables = {std::move(array)}; });
  };
  const auto text = [&](std::size_t bytes) {
    std::string json(bytes, 'x');
    json.front() = json.back() = '"';
    return json;
  };
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  std::string deep = "a";
  for (std::size_t i = 0; i < max_name_depth + more; ++i) deep += "/a";
  add("options has", [&](CheckpointState& state) { state.options_json = text(max_text_bytes + more); });
  add("options nests", [&](CheckpointState& state) { state.options_json = nested(max_options_depth + more); });
  add("global_step", [&](CheckpointState& state) { state.global_step = max_global_step + (beyond ? 1 : 0); });
  add("stream_position", [&](CheckpointState& state) { state.stream_position = max_stream_position + more; });
  add("slot name", [&](CheckpointState& state) { state.optimizer = {{std::string(max_name_bytes + more, 's'), {}}}; });
  add_array("bytes, at most", {std::string(max_name_bytes + more, 'n'), {1}, {1}});
  add_array("deeper than", {deep, {1}, {1}});
  add_array("has rank", {"a", std::vector<std::int64_t>(max_array_rank + more, 1), {1}});
  return states;
}

TEST(CheckpointAtItsBounds, IsReadBack) {
  const TemporaryDirectory directory;
  for (const auto& [bound, state] : states_at_bounds(false)) {
    SCOPED_TRACE(bound);
    write_checkpoint(directory.path() / "c.h5", state);
    expect_equal(read_checkpoint(directory.path() / "c.h5"), state);
  }
}

TEST(CheckpointAtItsBounds, IsNotWrittenBeyondAnyOfThem) {
  for (const auto& [bound, state] : states_at_bounds(true)) {
    SCOPED_TRACE(bound);
    const CheckpointState& beyond = state;
    const Error error = error_of([&] { encode_checkpoint(beyond); });
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), HasSubstr(bound));
  }
}

TEST(CheckpointAtItsBounds, IsBelowTheSizeThatReadersAcceptWithManySmallArrays) {
  constexpr std::size_t count = 1000;
  auto state = small_state();
  state.variables.clear();
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = std::to_string(i) + "/";
    name.resize(max_name_bytes, 'n');
    state.variables.push_back({std::move(name), {1, 1}, {0.5f}});
  }
  EXPECT_LT(encode_checkpoint(state).size(), count * max_array_overhead_bytes);
}

TEST(CheckpointAtItsBounds, HoldsNoArrayThatCouldNotBeReadBack) {
  const auto code_with = [](NamedArray array) {
    auto state = small_state();
    state.variables = {std::move(array)};
    return error_of([&] { encode_checkpoint(state); }).code();
  };
  EXPECT_EQ(code_with({"a", {3}, {1, 2}}), ExitCode::failed);
  EXPECT_EQ(code_with({"", {1}, {1}}), ExitCode::failed);
  for (const char* const name : {"a//b", "/a", "a/", "a/./b", "."}) {
    EXPECT_EQ(code_with({name, {1}, {1}}), ExitCode::failed) << name;
  }
}

}  // namespace
}  // namespace carillon
