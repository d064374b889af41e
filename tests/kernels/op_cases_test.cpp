// The cases that compare every op's GPU implementation with its CPU implementation (tests/gpu/ops_test.cpp).
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/shared/op_types.h"

namespace carillon::testing {
namespace {

/// A network that is imported from an ONNX file may have all of these types.
TEST(OpCases, HaveEveryOpType) {
  std::set<std::string_view> missing;
  for (const OpType* type : op_types()) missing.insert(type->name);
  for (const OpCase& op : op_cases()) {
    OpHarness harness(op.batch);
    op.build(harness);
    for (const Graph::Node& node : harness.graph().nodes()) {
      if (node.type != nullptr) missing.erase(node.type->name);
    }
  }
  EXPECT_TRUE(missing.empty()) << "no case has the op " << *missing.begin();
}

}  // namespace
}  // namespace carillon::testing
