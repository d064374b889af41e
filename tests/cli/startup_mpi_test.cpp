#include "src/cli/launch/mpi_main.h"

#include <gtest/gtest.h>

#include "carillon/device/device.h"
#include "src/cli/options/option_groups.h"
#include "src/device/cpu_device.h"
#include "src/train/control/rank_device.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class StartupTest : public ::testing::Test {
 protected:
  StartupTest() { declare(set_, options_); }
  bool parse(const std::string& option, const std::string& value) {
    std::string words[] = {"program", option, value};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data()};
    return parse_on_all_ranks(set_, 3, arguments, mpi_);
  }

  const Mpi& mpi_ = mpi_world();
  TrainOptions options_;
  OptionSet set_;
};

TEST_F(StartupTest, RanksMayDifferInRankSpecificOptions) {
  EXPECT_TRUE(parse("--threads", std::to_string(1 + mpi_.rank())));
  EXPECT_EQ(options_.device.threads, 1 + mpi_.rank());
}

TEST_F(StartupTest, RanksMayDifferInNothingElse) {
  const auto differing = [&] { parse("--log-every", std::to_string(1 + mpi_.rank())); };
  if (mpi_.size() == 1) {
    EXPECT_NO_THROW(differing());
  } else if (mpi_.rank() == 0) {
    EXPECT_THROW(differing(), SharedError);
  } else {
    EXPECT_THROW(differing(), PeerFailed);
  }
}

TEST_F(StartupTest, ABadValueOnOneRankEndsAll) {
  const bool last = mpi_.rank() == mpi_.size() - 1;
  if (last) {
    EXPECT_THROW(parse("--seed", "x"), SharedError);
  } else {
    EXPECT_THROW(parse("--seed", "1"), PeerFailed);
  }
}

TEST_F(StartupTest, KnowsTheInstructionSetsOfAllRanksAsTheOptionLimitsThem) {
  DeviceOptions options;
  EXPECT_EQ(possible_isas(options, mpi_), std::vector(static_cast<std::size_t>(mpi_.size()), available_isas().back()));
  if (mpi_.rank() == mpi_.size() - 1) options.cpu.isa = Isa::plain;
  EXPECT_EQ(possible_isas(options, mpi_).back(), Isa::plain);
}

TEST_F(StartupTest, NamesTheInstructionSetsOfAllRanksOnceEach) {
  const Isa highest = available_isas().back();
  CpuDevice alike(1);
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    EXPECT_EQ(isas_of_all(alike, arithmetic, mpi_),
              text_of(isa_choices, std::optional(rounding_isa(highest, arithmetic))));
  }
  const std::string name = text_of(isa_choices, std::optional(std::min(highest, Isa::avx512)));
  const bool last = mpi_.rank() == mpi_.size() - 1;
  CpuDevice differing(1, {.isa = last ? Isa::plain : highest});
  EXPECT_EQ(isas_of_all(differing, Arithmetic::fp32, mpi_),
            mpi_.size() == 1 || name == "plain" ? "plain" : name + ", plain");
}

}  // namespace
}  // namespace carillon::testing
