#include "src/step/update/update_strategy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace carillon::testing {
namespace {

TEST(UpdateGate, CannotBeStoppedInAnUpdate) {
  UpdateGate gate;
  gate.enter();
  gate.enter();
  EXPECT_FALSE(gate.stop());
  gate.leave();
  EXPECT_TRUE(gate.stop());
  EXPECT_TRUE(gate.stop()) << "it is stopped already";
}

TEST(UpdateGate, NoUpdateBeginsOnceItIsStopped) {
  static UpdateGate gate;  // static: the thread below uses it until the process ends
  static std::atomic<bool> has_entered = false;
  ASSERT_TRUE(gate.stop());
  std::thread([] {
    gate.enter();
    has_entered = true;
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_entered);
  gate.leave();
  EXPECT_TRUE(gate.stop()) << "leave does not open it";
}

}  // namespace
}  // namespace carillon::testing
