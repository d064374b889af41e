// Single operators that are imported and compared with onnxruntime. Each file of cases instantiates OnnxOperators.
#pragma once

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/checkpoint/array_files.h"
#include "tests/onnx/import_fixture.h"

namespace carillon::testing {

using Shape64 = std::vector<std::int64_t>;

inline void text(onnx::Node& node, const std::string& name, const std::string& value) {
  onnx::Attribute& one = *node.add_attribute();
  one.set_name(name);
  one.set_type(onnx::Attribute::STRING);
  one.set_s(value);
}

inline std::vector<float> noise(std::size_t count, float middle = 0.0f) {
  std::mt19937 draws(3);
  std::uniform_real_distribution<float> uniform(middle - 1.0f, middle + 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(draws);
  return values;
}

/// Adds nodes that compute "x" from "image", a value [batch, 3, 8, 8].
struct OperatorCase {
  std::string name;
  std::function<void(Model&)> add;
  std::int64_t operator_set = 17;
};
inline std::ostream& operator<<(std::ostream& out, const OperatorCase& one) { return out << one.name; }

class OnnxOperators : public OnnxImport, public ::testing::WithParamInterface<OperatorCase> {
 protected:
  static constexpr std::size_t batch_size = 3;

  /// Ends the model with an output [batch, elements of x].
  static void end(Model& model) { model.node("Flatten", {"x"}, "y"); }

  std::vector<float> expected(Model& model, const NoiseBatch& samples) {
    model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    const std::filesystem::path path = write(model, "reference.onnx");
    NamedArray pixels{"image", {static_cast<std::int64_t>(batch_size), 3, 8, 8}, {}};
    for (const std::uint8_t* sample : samples.batch().images) {
      for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t i = 0; i < 64; ++i) pixels.values.push_back(sample[3 * i + c]);
      }
    }
    const std::vector<ListedArray> arrays{{"image", &pixels}};
    write_npz(directory_.path() / "images.npz", arrays);
    const std::string folder = directory_.path().string();
    const std::string command = CARILLON_TESTS "/acceptance/onnx_run.py " + path.string() + " " + folder +
                                "/images.npz " + folder + "/outputs.npz";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    const std::vector<NamedArray> found = read_npz(folder + "/outputs.npz", 1 << 24);
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? std::vector<float>{} : found[0].values;
  }
};

inline std::string name_of(const ::testing::TestParamInfo<OperatorCase>& one) { return one.param.name; }

}  // namespace carillon::testing
