#include "src/core/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carillon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Manual sample() {
  return {
      .program = "bell",
      .purpose = "Rings a bell",
      .synopses = {"bell [--times N]", "bell --stop"},
      .description = ".hidden\nback\\slash",
      .groups =
          {{"",
            {{.name = "times", .value = "N", .text = "how often", .default_value = "3"},
             {.name = "tone", .value = "VALUE", .text = "which", .default_value = "low", .choices = {"low", "it's"}}}},
           {"empty", {}},
           {"More", {{.name = "help", .text = "print this text"}}}},
      .words = {"now", "later"},
      .exit_statuses = {{0, "done"}, {64, "wrong usage"}}};
}

TEST(ManualTest, OptionsStandInTwoColumns) {
  EXPECT_THAT(help_text(sample()), HasSubstr("\noptions:\n"
                                             "  --times N     how often (3)\n"
                                             "  --tone VALUE  which [low|it's] (low)\n"
                                             "\nMore:\n"
                                             "  --help, -h    print this text\n"));
}

TEST(ManualTest, LongTextsAreWrappedInTheirColumn) {
  Manual manual = sample();
  manual.groups[0].options[0].text = std::string(60, 'a') + " " + std::string(43, 'b') + " " + std::string(3, 'c');
  EXPECT_THAT(help_text(manual), HasSubstr("\n  --times N     " + std::string(60, 'a') + " " + std::string(43, 'b') +
                                           "\n                " + "ccc (3)\n"));
}

TEST(ManualTest, HelpHasUsagePurposeOptionsAndExitCodes) {
  const std::string help = help_text(sample());
  EXPECT_THAT(help, HasSubstr("usage: bell [--times N]\n       bell --stop\n\nRings a bell.\n"));
  EXPECT_THAT(help, Not(HasSubstr("empty")));
  EXPECT_THAT(help, HasSubstr("exit codes:\n   0  done\n  64  wrong usage\n"));
}

TEST(ManualTest, TheManPageHoldsTextAsItIs) {
  const std::string page = man_page(sample());
  EXPECT_THAT(page, HasSubstr(".SH NAME\nbell \\- rings a bell\n"));
  // Groff would treat an unescaped . as a macro, and an unescaped \ as an escape.
  EXPECT_THAT(page, HasSubstr("\n\\&.hidden\nback\\eslash\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-times\\fR \\fIN\\fR\nhow often (default: 3)\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-help\\fR, \\fB\\-h\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n64\nwrong usage\n"));
  EXPECT_THAT(page, Not(HasSubstr("empty")));
}

TEST(ManualTest, TheCompletionQuotesWordsThatBashWouldSplit) {
  const std::string completion = bash_completion(sample());
  EXPECT_THAT(completion, HasSubstr("--tone) words='low it'\\''s' ;;"));
  EXPECT_THAT(completion, HasSubstr("words='--times --tone --help'"));
  EXPECT_THAT(completion, HasSubstr("words='now later'"));
  EXPECT_THAT(completion, HasSubstr("complete -o default -F _carillon_bell bell\n"));
}

TEST(ManualTest, MarkdownHasATablePerGroup) {
  Manual manual = sample();
  manual.groups[0].options[0].text = "`a|b*` in <x>, 'c/*'";
  manual.groups[2].heading = "more";
  EXPECT_EQ(markdown_page(manual), R"(# bell

Rings a bell.

```text
bell [--times N]
bell --stop
```

```text
.hidden
back\slash
```

## Options

| Option | Default | Description |
|---|---|---|
| `--times N` | `3` | `a\|b*` in &lt;x>, 'c/\*' |
| `--tone VALUE` | `low` | which. Values: `low`, `it's` |

## More

| Option | Default | Description |
|---|---|---|
| `--help, -h` |  | print this text |

## Exit codes

| Code | Meaning |
|---|---|
| 0 | done |
| 64 | wrong usage |
)");
}

TEST(ManualTest, DocumentsArePrintedOnlyWhenAskedFor) {
  const auto none = []() -> Manual { throw std::logic_error("nobody asked"); };
  const char* const others[] = {"bell", "--document", "html"};
  EXPECT_FALSE(print_document(1, others, none));
  EXPECT_FALSE(print_document(2, others, none));
  EXPECT_FALSE(print_document(3, others, none));
  const auto printed = [](const char* kind) {
    const char* const asking[] = {"bell", "--document", kind};
    ::testing::internal::CaptureStdout();
    EXPECT_TRUE(print_document(3, asking, sample));
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed("man"), man_page(sample()));
  EXPECT_EQ(printed("bash"), bash_completion(sample()));
  EXPECT_EQ(printed("markdown"), markdown_page(sample()));
}

}  // namespace
}  // namespace carillon
