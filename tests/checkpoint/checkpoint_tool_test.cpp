// Tests of checkpoint_tool and its parts: comparing and averaging arrays, and writing and reading numpy files.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "src/checkpoint/array_files.h"
#include "src/checkpoint/named_arrays.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/run_program.h"

namespace carillon {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::read_text;
using testing::small_state;
using testing::TemporaryDirectory;
using testing::write_text;

CheckpointState state_with_all_groups() {
  CheckpointState state = small_state();
  state.moving_averages.push_back({"layer1/weights", {3, 2}, {1, 2, 3, 4, 5, 6}});
  state.buffers = {{"norm/moving_mean", {2}, {0.5f, -0.5f}}};
  return state;
}

std::vector<std::string> lines_of(const CheckpointState& first, const CheckpointState& second) {
  std::vector<std::string> lines;
  for (const ArrayDifference& difference : differences(first, second)) {
    lines.push_back(difference.name + ": " + difference.text);
  }
  return lines;
}

TEST(CheckpointArrays, AreListedByTheirPathsInTheFile) {
  const CheckpointState state = state_with_all_groups();
  std::vector<std::string> names;
  for (const ListedArray& listed : list_arrays(state)) names.push_back(listed.name);
  EXPECT_EQ(names, (std::vector<std::string>{"variables/layer1/biases", "variables/layer1/weights",
                                             "moving_averages/layer1/biases", "moving_averages/layer1/weights",
                                             "state/norm/moving_mean", "optimizer/momentum/layer1/biases"}));
}

TEST(CheckpointArrays, AreSummarisedOverTheirFiniteValues) {
  const std::vector<float> values{3.0f, -4.0f, NAN, INFINITY};
  const ArraySummary summary = summarise(values);
  EXPECT_EQ(summary.mean, -0.5);
  EXPECT_EQ(summary.norm, 5.0);
  EXPECT_EQ(summary.smallest, -4.0);
  EXPECT_EQ(summary.largest, 3.0);
  EXPECT_EQ(summary.not_finite, 2u);
  EXPECT_EQ(summarise({}).norm, 0.0);
}

TEST(CheckpointArrays, OfEqualStatesDoNotDiffer) {
  CheckpointState state = state_with_all_groups();
  state.variables[0].values[0] = NAN;
  EXPECT_THAT(differences(state, state), IsEmpty());
}

TEST(CheckpointArrays, DifferByValueShapeAndPresence) {
  CheckpointState first = state_with_all_groups(), second = first;
  second.variables[0].values = {1.0f, 2.5f};
  second.moving_averages[1].shape = {2, 3};
  second.buffers[0].name = "norm/moving_variance";
  second.optimizer["momentum"][0].values[0] = -5.0f;
  EXPECT_THAT(lines_of(first, second),
              ::testing::ElementsAre("variables/layer1/biases: 1 of 2 values, by 0.5 at most, 0.224 of its norm",
                                     "moving_averages/layer1/weights: 3 x 2 and 2 x 3",
                                     "state/norm/moving_mean: only in the first",
                                     "optimizer/momentum/layer1/biases: 1 of 2 values, by 10 at most, 1.28 of its norm",
                                     "state/norm/moving_variance: only in the second"));
}

TEST(CheckpointArrays, DifferByTheSignOfZeroAndByWhatIsNotFinite) {
  CheckpointState first = small_state(), second = first;
  first.variables[0].values = {0.0f, 1.0f};
  second.variables[0].values = {-0.0f, 1.0f};
  EXPECT_THAT(lines_of(first, second).at(0), HasSubstr("1 of 2 values, by 0 at most"));
  second.variables[0].values = {0.0f, NAN};
  EXPECT_THAT(lines_of(first, second).at(0), HasSubstr("1 of 2 values, by nan at most"));
}

TEST(CheckpointMean, IsThatOfVariablesAveragesAndStates) {
  CheckpointState first = state_with_all_groups(), second = first, third = first;
  second.global_step = 8;
  third.global_step = 9;
  second.variables[0].values = {2, 4};
  third.variables[0].values = {6, 6};
  third.moving_averages[0].values = {9, 10};
  third.buffers[0].values = {3.5f, 1.0f};
  const std::vector<LoadedCheckpoint> all{{"a", first}, {"b", second}, {"c", third}};
  const CheckpointState mean = mean_of(all);
  EXPECT_EQ(mean.global_step, 9);
  EXPECT_EQ(mean.variables[0].values, (std::vector<float>{3, 4}));
  EXPECT_EQ(mean.variables[1].values, first.variables[1].values);
  EXPECT_EQ(mean.moving_averages[0].values, (std::vector<float>{5, 6}));
  EXPECT_EQ(mean.buffers[0].values, (std::vector<float>{1.5f, 0.0f}));
  EXPECT_TRUE(mean.optimizer.empty());
}

TEST(CheckpointMean, RefusesWhatHasNoneByTheFilesName) {
  const CheckpointState state = state_with_all_groups();
  CheckpointState model = state, shape = state, missing = state;
  model.model = "lenet";
  shape.variables[1].shape = {6};
  missing.buffers.clear();
  const auto error_with = [&](const CheckpointState& other) {
    const std::vector<LoadedCheckpoint> both{{"first.h5", state}, {"other.h5", other}};
    return error_of([&] { mean_of(both); });
  };
  EXPECT_THAT(error_with(model).what(),
              HasSubstr("other.h5: has the model 'lenet', and the first checkpoint has 'mnist'"));
  EXPECT_THAT(error_with(shape).what(), HasSubstr("other.h5: its array 'layer1/weights'"));
  EXPECT_THAT(error_with(missing).what(), HasSubstr("other.h5: its array 'norm/moving_mean'"));
  EXPECT_EQ(error_with(missing).code(), ExitCode::data);
  const std::vector<LoadedCheckpoint> one{{"first.h5", state}};
  EXPECT_EQ(error_of([&] { mean_of(one); }).code(), ExitCode::usage);
}

class Npz : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  /// Runs `code` in Python, with numpy imported as np. Returns the output.
  static std::string python(const std::string& code) {
    FILE* pipe = ::popen(("/usr/bin/python3 -c 'import numpy as np\n" + code + "' 2>&1").c_str(), "r");
    std::string output;
    char buffer[4096];
    for (std::size_t bytes; (bytes = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, bytes);
    EXPECT_EQ(::pclose(pipe), 0) << output;
    return output;
  }
  Error error_of_reading(const std::string& name, std::uint64_t max_bytes = 1 << 20) const {
    return error_of([&] { read_npz(path(name), max_bytes); });
  }

  const TemporaryDirectory directory_;
};

TEST_F(Npz, IsReadByNumpy) {
  const NamedArray matrix{"layer1/weights", {3, 2}, {1, -2, 3.5f, -0.0f, 5e-40f, 6}}, row{"row", {2}, {7, 8}},
      scalar{"scalar", {}, {9}}, empty{"empty", {0, 4}, {}};
  const std::vector<ListedArray> arrays{
      {"variables/layer1/weights", &matrix}, {"row", &row}, {"scalar", &scalar}, {"empty", &empty}};
  write_npz(path("a.npz"), arrays);
  const std::string show =
      "for n in f.files: print(n, f[n].dtype, f[n].shape, \" \".join(\"%.4g\" % v for v in f[n].ravel()))";
  EXPECT_EQ(python("f = np.load(\"" + path("a.npz").string() + "\")\n" + show),
            "variables/layer1/weights float32 (3, 2) 1 -2 3.5 -0 5e-40 6\n"
            "row float32 (2,) 7 8\nscalar float32 () 9\nempty float32 (0, 4) \n");
}

TEST_F(Npz, ComesBackAsItWasAndTheSameArraysGiveTheSameBytes) {
  const CheckpointState state = state_with_all_groups();
  const std::vector<ListedArray> arrays = list_arrays(state);
  write_npz(path("a.npz"), arrays);
  write_npz(path("b.npz"), arrays);
  EXPECT_EQ(read_text(path("a.npz")), read_text(path("b.npz")));
  const std::vector<NamedArray> found = read_npz(path("a.npz"), 1 << 20);
  ASSERT_EQ(found.size(), arrays.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, arrays[i].name);
    EXPECT_EQ(found[i].shape, arrays[i].array->shape);
    EXPECT_EQ(std::memcmp(found[i].values.data(), arrays[i].array->values.data(), found[i].values.size() * 4), 0);
  }
}

TEST_F(Npz, OfNumpyIsReadInBothWidthsCompressedOrNot) {
  for (const std::string how : {"savez", "savez_compressed"}) {
    SCOPED_TRACE(how);
    python("np." + how + "(\"" + path("n.npz").string() +
           "\", **{\"a/b\": np.arange(6, dtype=np.float32).reshape(2, 3), \"c\": np.array([0.1, 1e300]), "
           "\"d\": np.float32(4)})");
    const std::vector<NamedArray> found = read_npz(path("n.npz"), 1 << 20);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0], (NamedArray{"a/b", {2, 3}, {0, 1, 2, 3, 4, 5}}));
    EXPECT_EQ(found[1], (NamedArray{"c", {2}, {0.1f, std::numeric_limits<float>::infinity()}}));
    EXPECT_EQ(found[2], (NamedArray{"d", {}, {4}}));
  }
}

TEST_F(Npz, OfOtherThingsIsRefusedByTheArraysName) {
  const auto save = [&](const std::string& array) {
    python("np.savez(\"" + path("n.npz").string() + "\", x=" + array + ")");
    return error_of_reading("n.npz");
  };
  EXPECT_THAT(save("np.arange(3)").what(), HasSubstr("n.npz: 'x.npy': its type is '<i8', not float32 or float64"));
  EXPECT_THAT(save("np.ones((2, 3), np.float32).T").what(), HasSubstr("'x.npy': it is in column order"));
  EXPECT_EQ(save("np.array([\"text\"])").code(), ExitCode::data);
  write_text(path("text.npz"), "no zip file");
  EXPECT_THAT(error_of_reading("text.npz").what(), HasSubstr("text.npz: is no .npz file, or a damaged one"));
  EXPECT_EQ(error_of_reading("missing.npz").code(), ExitCode::no_input);
  python("np.savez(\"" + path("n.npz").string() + "\", x=np.zeros(1000, np.float32))");
  EXPECT_THAT(error_of_reading("n.npz", 3000).what(), HasSubstr("'x.npy': has more data than the checkpoint's arrays"));
}

/// The headers declare 2 values, but more or fewer bytes follow. The checksums are correct, so only the check of the
/// size can reject the files.
TEST_F(Npz, IsRefusedIfTheBytesOfAnArrayDoNotMatchItsShape) {
  python(
      "import io, zipfile\n"
      "for dtype in np.float32, np.float64:\n"
      "  file = io.BytesIO()\n"
      "  np.lib.format.write_array(file, np.zeros(2, dtype))\n"
      "  width = np.dtype(dtype).itemsize\n"
      "  header = file.getvalue()[:-2 * width]\n"
      "  for size in range(4 * width + 1):\n"
      "    with zipfile.ZipFile(\"" +
      path("").string() +
      "\" + f\"{width}-{size}.npz\", \"w\") as archive: archive.writestr(\"x.npy\", header + bytes(size))");
  for (const std::size_t width : {4u, 8u}) {
    for (std::size_t size = 0; size <= 4 * width; ++size) {
      const std::string name = fmt::format("{}-{}.npz", width, size);
      if (size == 2 * width) {
        EXPECT_EQ(read_npz(path(name), 1 << 20), (std::vector<NamedArray>{{"x", {2}, {0, 0}}}));
        continue;
      }
      const Error error = error_of_reading(name);
      EXPECT_EQ(error.code(), ExitCode::data) << name;
      EXPECT_THAT(
          error.what(),
          HasSubstr(fmt::format("'x.npy': its shape requires 2 values, but the file has {} bytes of values", size)));
    }
  }
}

TEST_F(Npz, DamagedAnywhereGivesItsArraysOrAnError) {
  const CheckpointState state = small_state();
  write_npz(path("a.npz"), list_arrays(state));
  const std::string whole = read_text(path("a.npz"));
  const auto write = [&](const std::string& name, const std::string& bytes) {
    // Remove the file first: if a file is truncated and rewritten, ext4 flushes it to the disk, which is slow.
    std::filesystem::remove(path(name));
    write_text(path(name), bytes);
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    write("b.npz", damaged);
    try {
      read_npz(path("b.npz"), 1 << 20);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << at;
    }
    write("c.npz", whole.substr(0, at));
    try {
      read_npz(path("c.npz"), 1 << 20);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << at;
    }
  }
}

class CheckpointTool : public Npz {
 protected:
  Outcome tool(const std::string& arguments) const {
    return run_program("checkpoint_tool " + arguments, "cd " + directory_.path().string() + " && ");
  }
  void expect_failure(const std::string& arguments, ExitCode code, const std::string& text) const {
    expect_one_line(tool(arguments), code, text);
  }
};

TEST_F(CheckpointTool, InspectShowsStateOptionsAndArrays) {
  write_checkpoint(path("model.ckpt-7.h5"), small_state());
  for (const std::string place : {"model.ckpt-7.h5", "."}) {
    const Outcome outcome = tool("inspect " + place);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.output,
                HasSubstr("model mnist, step 7, seed 18364758544493064720, next sample 1400; 8 parameters"));
    EXPECT_THAT(outcome.output, HasSubstr("\n    batch-size = 100\n"));
    EXPECT_THAT(
        outcome.output,
        HasSubstr(
            "variables/layer1/biases                            2         1.5       2.236           1           2\n"));
  }
}

TEST_F(CheckpointTool, InspectShowsMovingAveragesOnlyIfThereAreAny) {
  CheckpointState state = small_state();
  state.moving_averages = state.variables;
  for (const auto& [decay, are_shown] : {std::pair("0.0", false), std::pair("0.9", true)}) {
    state.options_json = fmt::format(R"({{"moving_average_decay":{}}})", decay);
    write_checkpoint(path("model.ckpt-7.h5"), state);
    EXPECT_EQ(tool("inspect .").output.find("moving_averages/") != std::string::npos, are_shown) << decay;
  }
}

TEST_F(CheckpointTool, VerifyReportsDamagedAndNonFiniteArrays) {
  write_checkpoint(path("a.h5"), small_state());
  EXPECT_THAT(tool("verify a.h5").output, HasSubstr("a.h5: sound; model mnist, step 7, 4 arrays, all values finite"));
  CheckpointState bad = small_state();
  bad.optimizer["momentum"][0].values[1] = NAN;
  write_checkpoint(path("b.h5"), bad);
  expect_failure("verify b.h5", ExitCode::data,
                 "b.h5: 1 of the 2 values of 'optimizer/momentum/layer1/biases' are not finite");
  std::string bytes = read_text(path("a.h5"));
  bytes[900] = static_cast<char>(bytes[900] ^ 1);
  write_text(path("c.h5"), bytes);
  expect_failure("verify c.h5", ExitCode::data, "c.h5");
  expect_failure("verify missing.h5", ExitCode::no_input, "missing.h5");
}

TEST_F(CheckpointTool, DiffEndsWithOneWhereAnythingDiffers) {
  CheckpointState other = small_state(8);
  other.variables[0].values[0] = 1.5f;
  other.options_json = R"({"batch-size": 50, "data": ["größe/*.tfrecord"]})";
  write_checkpoint(path("a.h5"), small_state());
  write_checkpoint(path("b.h5"), other);
  EXPECT_EQ(tool("diff a.h5 a.h5").code, 0);
  EXPECT_EQ(tool("diff a.h5 a.h5").output, "");
  const Outcome outcome = tool("diff a.h5 b.h5");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.output,
            "step: 7 and 8\noptions:\n<     batch-size = 100\n>     batch-size = 50\n"
            "variables/layer1/biases: 1 of 2 values, by 0.5 at most, 0.224 of its norm\n");
}

TEST_F(CheckpointTool, DiffOfArraysIgnoresStepSeedAndOptions) {
  CheckpointState other = small_state(8);
  other.seed = 3;
  other.options_json = "{}";
  write_checkpoint(path("a.h5"), small_state());
  write_checkpoint(path("b.h5"), other);
  const Outcome equal = tool("diff --arrays a.h5 b.h5");
  EXPECT_EQ(equal.code, 0);
  EXPECT_EQ(equal.output, "");
  other.variables[0].values[0] = 1.5f;
  write_checkpoint(path("b.h5"), other);
  const Outcome differing = tool("diff a.h5 b.h5 --arrays");
  EXPECT_EQ(differing.code, 1);
  EXPECT_EQ(differing.output, "variables/layer1/biases: 1 of 2 values, by 0.5 at most, 0.224 of its norm\n");
}

TEST_F(CheckpointTool, AverageWritesTheMean) {
  CheckpointState other = small_state(8);
  other.variables[0].values = {3, 5};
  write_checkpoint(path("a.h5"), small_state());
  write_checkpoint(path("b.h5"), other);
  EXPECT_EQ(tool("average --output mean.h5 a.h5 b.h5").code, 0);
  const CheckpointState mean = read_checkpoint(path("mean.h5"));
  EXPECT_EQ(mean.global_step, 8);
  EXPECT_EQ(mean.variables[0].values, (std::vector<float>{2, 3.5f}));
}

TEST_F(CheckpointTool, ArraysGoToPythonAndBack) {
  write_checkpoint(path("a.h5"), state_with_all_groups());
  EXPECT_EQ(tool("export-npz a.h5 a.npz").code, 0);
  EXPECT_EQ(tool("import-npz a.h5 a.npz --output same.h5").code, 0);
  EXPECT_EQ(read_text(path("same.h5")), read_text(path("a.h5")));
  python("np.savez(\"" + path("b.npz").string() + "\", **{\"variables/layer1/biases\": np.array([8.0, 9.0])})");
  EXPECT_EQ(tool("import-npz --output=b.h5 a.h5 b.npz").code, 0);
  CheckpointState expected = state_with_all_groups();
  expected.variables[0].values = {8, 9};
  const CheckpointState found = read_checkpoint(path("b.h5"));
  expect_equal(found, expected);
  EXPECT_TRUE(found.buffers == expected.buffers);
}

TEST_F(CheckpointTool, ImportRejectsArraysThatDoNotFitAndWritesNothing) {
  write_checkpoint(path("a.h5"), small_state());
  const auto save = [&](const std::string& arrays) {
    python("np.savez(\"" + path("n.npz").string() + "\", " + arrays + ")");
  };
  save("**{\"variables/layer9\": np.zeros(2)}");
  expect_failure("import-npz --output b.h5 a.h5 n.npz", ExitCode::data, "a.h5 has no array 'variables/layer9'");
  save("**{\"variables/layer1/biases\": np.zeros(3)}");
  expect_failure("import-npz --output b.h5 a.h5 n.npz", ExitCode::data, "has shape 3, expected 2 as in a.h5");
  save("**{\"variables/layer1/biases\": np.array([1.0, np.nan])}");
  expect_failure("import-npz --output b.h5 a.h5 n.npz", ExitCode::data,
                 "n.npz: 1 of the 2 values of 'variables/layer1/biases' are not finite");
  save("");
  expect_failure("import-npz --output b.h5 a.h5 n.npz", ExitCode::data, "n.npz");
  EXPECT_FALSE(std::filesystem::exists(path("b.h5")));
}

TEST_F(CheckpointTool, RequiresACommandAndItsFiles) {
  EXPECT_THAT(tool("--help").output, HasSubstr("exit codes:"));
  EXPECT_EQ(tool("inspect --help").code, 0);
  expect_failure("", ExitCode::usage, "no command");
  expect_failure("look a.h5", ExitCode::usage, "unknown command 'look'");
  expect_failure("diff a.h5", ExitCode::usage, "diff takes 2 files, not 1");
  expect_failure("verify", ExitCode::usage, "verify takes 1 file or more, not 0");
  expect_failure("average a.h5 b.h5", ExitCode::usage, "--output is missing");
  expect_failure("verify a.h5 --output b.h5", ExitCode::usage, "--output does not apply to verify");
  expect_failure("verify --arrays a.h5", ExitCode::usage, "--arrays does not apply to verify");
  expect_failure("verify --all a.h5", ExitCode::usage, "--all: unknown option");
  expect_failure("inspect .", ExitCode::no_input, "contains no checkpoint");
}

}  // namespace
}  // namespace carillon
