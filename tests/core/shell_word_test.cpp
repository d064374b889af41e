#include "src/core/shell_word.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(ShellWord, IsQuotedOnlyIfAShellWouldChangeIt) {
  EXPECT_EQ(shell_word("runs/a_b-1.cfg"), "runs/a_b-1.cfg");
  EXPECT_EQ(shell_word("data/train-*"), "'data/train-*'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_quoted("plain"), "'plain'");
}

TEST(ShellWord, HasNoCharacterThatATerminalWouldNotShow) {
  EXPECT_EQ(shell_word("it's\u202e\\\n"), "$'it\\'s\\xe2\\x80\\xae\\\\\\x0a'");
}

}  // namespace
}  // namespace carillon
