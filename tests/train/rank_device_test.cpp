#include "src/train/control/rank_device.h"

#include <gmock/gmock.h>

#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

const Network resnet = resnet18_cifar_network(cifar10_images()),
              transformer = vit_tiny_patch4_32_network(cifar10_images());

TEST(AutomaticPrecision, IsTf32OnGpus) {
  EXPECT_EQ(automatic_precision(DeviceKind::cuda, {Isa::amx}, resnet, 32), Arithmetic::tf32);
  EXPECT_EQ(automatic_evaluation_precision(DeviceKind::cuda, {Isa::amx}, true), Arithmetic::tf32);
}

TEST(AutomaticPrecision, IsBf16OnCpusIfAllRanksHaveTiles) {
  EXPECT_EQ(automatic_precision(DeviceKind::cpu, {Isa::amx, Isa::amx}, resnet, 1), Arithmetic::bf16);
  EXPECT_EQ(automatic_precision(DeviceKind::cpu, {Isa::amx, Isa::plain}, transformer, 32), Arithmetic::fp32);
}

TEST(AutomaticPrecision, IsBf16WithAvx512Bf16ForNetworksWithoutWinogradsMethod) {
  const std::vector<Isa> isas{Isa::amx, Isa::avx512_bf16};
  EXPECT_EQ(automatic_precision(DeviceKind::cpu, isas, transformer, 32), Arithmetic::bf16);
  EXPECT_EQ(automatic_precision(DeviceKind::cpu, isas, resnet, 32), Arithmetic::fp32);
  EXPECT_EQ(automatic_precision(DeviceKind::cpu, {Isa::avx512, Isa::avx512_bf16}, transformer, 32), Arithmetic::fp32);
}

TEST(AutomaticPrecision, IsFp32WithAvx512Bf16IfABatchFillsNoTile) {
  EXPECT_EQ(automatic_precision(DeviceKind::cpu, {Isa::avx512_bf16}, transformer, 15), Arithmetic::fp32);
}

TEST(AutomaticPrecision, OfAnEvaluationIsThatOfTheTrainingWhereItIsFast) {
  const auto of = [](Isa isa, bool trained_in_bf16) {
    return automatic_evaluation_precision(DeviceKind::cpu, {isa}, trained_in_bf16);
  };
  EXPECT_EQ(of(Isa::avx512_bf16, true), Arithmetic::bf16);
  EXPECT_EQ(of(Isa::avx512_bf16, false), Arithmetic::fp32);
  EXPECT_EQ(of(Isa::avx512, true), Arithmetic::fp32);
  EXPECT_EQ(of(Isa::amx, false), Arithmetic::bf16);
}

/// On AMD's Zen 4, bf16 is 1.4 to 1.8 times as fast as float32 for the networks with EXPECT_TRUE, and 0.8 to 1.1 times
/// as fast for the networks with EXPECT_FALSE.
TEST(SuitsAvx512Bf16, IsTheMeasuredChoice) {
  const NetworkSettings pictures{.image = {.height = 224, .width = 224, .channels = 3}, .outputs = 10};
  for (const MakeNetwork make :
       {vit_tiny_patch16_224_network, convnext_tiny_network, resnet50_network, resnet152_network}) {
    EXPECT_TRUE(suits_avx512_bf16(make(pictures), 16)) << make(pictures).name;
  }
  EXPECT_FALSE(suits_avx512_bf16(resnet18_network(pictures), 16));
  for (const MakeNetwork make : {resnet9_network, airbench94_network, airbench96_network}) {
    EXPECT_FALSE(suits_avx512_bf16(make(cifar10_images()), 64)) << make(cifar10_images()).name;
  }
}

/// Returns the message that rejects the instruction set `asked` if the processor has the instruction sets `available`.
/// Returns an empty text if `asked` is accepted.
std::string refusal(std::optional<Isa> asked, const std::vector<Isa>& available) {
  try {
    check_isa(asked, available);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return {};
}

TEST(CheckIsa, RejectsAMissingInstructionSetAndNamesTheAvailableOnes) {
  EXPECT_EQ(refusal(Isa::avx512, {Isa::plain, Isa::avx2}), "--isa avx512: this processor supports avx2 at most");
  EXPECT_EQ(refusal(Isa::avx2, {Isa::plain}), "--isa avx2: this processor supports plain at most");
}

TEST(CheckIsa, TakesEachOneThatTheProcessorHas) {
  const std::vector<Isa> all{Isa::plain, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};
  for (const Isa isa : all) EXPECT_EQ(refusal(isa, all), "");
  EXPECT_EQ(refusal(std::nullopt, {Isa::plain}), "");
}

}  // namespace
}  // namespace carillon::testing
