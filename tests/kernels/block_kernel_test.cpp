#include "kernels/shared/block_kernel.h"

#include <gmock/gmock.h>

namespace carillon {
namespace {

TEST(IndexLimit, NamesTheOpAndTheOptionThatHelps) {
  EXPECT_NO_THROW(check_index_limit("max_pool", 4'294'967'295));
  try {
    check_index_limit("max_pool", 4'294'967'296);
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("max_pool on a GPU: a tensor has 4294967296 elements"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--batch-size"));
  }
}

}  // namespace
}  // namespace carillon
