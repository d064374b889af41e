#include "src/step/tensor_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

class Arrays : public ::testing::Test {
 protected:
  /// Uploads `arrays` to the variables a [2] and b [2, 3]. Returns the text of the error, if the upload fails.
  std::string error_of(const std::vector<NamedArray>& arrays) {
    try {
      upload(arrays, variables_of(store_), device_, "x.h5");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      return error.what();
    }
    return "";
  }
  static NamedArray array(const std::string& name, std::vector<std::int64_t> shape, std::size_t count) {
    return {name, std::move(shape), std::vector<float>(count, 7.0f)};
  }

  CpuDevice device_{1};
  ParameterStore store_{{{"a", {2}, {}, 0.0f}, {"b", {2, 3}, {}, 0.0f}}, device_, {}, {{.name = "momentum"}}};
};

TEST_F(Arrays, ComeBackAsTheyWent) {
  EXPECT_EQ(error_of({array("b", {2, 3}, 6), array("a", {2}, 2)}), "");
  const std::vector<NamedArray> back = download(variables_of(store_), device_);
  EXPECT_EQ(back[1].name, "b");
  EXPECT_EQ(back[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(back[1].values, std::vector<float>(6, 7.0f));
  EXPECT_EQ(download(parts_of(store_.slot(0), store_), device_)[0].values, std::vector<float>(2))
      << "the slot has memory of its own";
}

TEST_F(Arrays, OfAnotherNetworkAreRefusedByNameAndNothingIsChanged) {
  EXPECT_THAT(error_of({array("a", {2}, 2)}), HasSubstr("x.h5 lacks the model's variable 'b'"));
  EXPECT_THAT(error_of({array("a", {2}, 2), array("b", {2, 3}, 6), array("c", {1}, 1)}),
              HasSubstr("holds a variable 'c' that the model does not have"));
  EXPECT_THAT(error_of({array("a", {2}, 2), array("b", {3, 2}, 6)}),
              HasSubstr("holds 'b' of shape [3, 2], the model's is [2, 3]"));
  EXPECT_EQ(download(variables_of(store_), device_)[0].values, std::vector<float>(2));
}

}  // namespace
}  // namespace carillon::testing
