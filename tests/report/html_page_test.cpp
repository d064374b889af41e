#include "src/report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/report/page_facts.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

TEST(HtmlText, EscapesWhatMarkupUses) {
  EXPECT_EQ(html_text("<b>&\"'größe"), "&lt;b&gt;&amp;&quot;&#39;größe");
  EXPECT_EQ(html_text("a\n\x7F\xFF"), "a\\x0a\\x7f\\xff");
}

TEST(HtmlText, OmitsTheMiddleOfALongText) {
  const std::string text = html_text("begin" + std::string(1000, 'x') + "end", 100);
  EXPECT_TRUE(text.starts_with("beginx") && text.ends_with("xend")) << text;
  EXPECT_LE(text.size(), 130u);
}

/// RFC 4648, section 10.
TEST(HtmlText, EncodesBytesInBase64) {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) EXPECT_EQ(base64(bytes), text);
  EXPECT_EQ(base64(std::string_view("\xFF\xFE\x00", 3)), "//4A");
}

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ScoreText score_texts[] = {{"r2", "R2", "1 is perfect"}, {"mae", "Mean absolute error", "lower is better"}};

std::string page_of(const PageFacts& facts) {
  return html_page(facts, {.outputs = "2 numbers",
                           .scores = score_texts,
                           .sections = {{"own", "Own section", "<p>own</p>"}},
                           .about_pictures = "About pictures."});
}

TEST(HtmlPage, HasTheSectionsOfAllTasksAroundItsOwn) {
  const Markup page(page_of(page_facts()));
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count(page, "section"), 5);
  EXPECT_EQ(count(page, "a"), 5);
  EXPECT_THAT(page.text, HasSubstr("2 numbers"));
  EXPECT_THAT(page.text, HasSubstr("ScoresLearning curvesOwn sectionPicturesRun"));
}

TEST(HtmlPage, ShowsScoresInTheOrderOfTheirTextsAndWithoutLosingDigits) {
  PageFacts facts = page_facts();
  facts.scores = {
      {.name = "mae", .value = 0.000012345}, {.name = "unknown", .value = 1.0}, {.name = "r2", .value = NAN}};
  const std::string text = Markup(page_of(facts)).text;
  EXPECT_THAT(text, HasSubstr("R2–1 is perfect\nMean absolute error1.2345e-05lower is better\n"));
  EXPECT_THAT(text, Not(HasSubstr("unknown")));
}

TEST(HtmlPage, TablesTheEvaluationsByTheLoggedNamesOfTheScores) {
  PageFacts facts = page_facts();
  facts.scores = {{.name = "r2", .value = 0.5, .log_name = "logged"}, {.name = "mae", .value = 1.0}};
  facts.curves.evaluations = {{10, {{"logged", 0.25}}}, {20, {{"mae", 3.0}, {"other", 1.0}}}};
  const std::string text = page_of(facts);
  EXPECT_THAT(text, HasSubstr("<td class=\"n\">10</td><td class=\"n\">0.2500</td><td class=\"n\">–</td></tr>\n<tr>"
                              "<td class=\"n\">20</td><td class=\"n\">–</td><td class=\"n\">3.0000</td></tr>"));
  EXPECT_THAT(text, HasSubstr("<b>R2</b>")) << "the chart of the first score";
  EXPECT_THAT(text, Not(HasSubstr("<b>Mean absolute error</b>")));
}

TEST(HtmlPage, ChartsShowTheEvaluatedStepAlsoAfterTheLastPoint) {
  PageFacts facts = page_facts();
  facts.network.step = 1900;
  EXPECT_THAT(page_of(facts), HasSubstr("<line class=\"mark\" x1=\"405.4\""));
}

TEST(HtmlPage, MarksPredictionsThatAreRightOrWrong) {
  PageFacts facts = page_facts();
  facts.pictures.resize(1);
  facts.pictures[0].shown.resize(1);
  ShownPrediction& shown = facts.pictures[0].shown[0];
  EXPECT_THAT(page_of(facts), HasSubstr("<span class=\"line wrong\">✗<span class=\"hidden\"> wrong</span> 98.10 %"));
  shown.is_right = true;
  EXPECT_THAT(page_of(facts), HasSubstr("<span class=\"line right\">✓<span class=\"hidden\"> right</span> 98.10 %"));
  shown.is_right.reset();
  EXPECT_THAT(page_of(facts), HasSubstr("<span class=\"line\">98.10 %"));
}

TEST(HtmlPage, LeavesTheOldOneUntilTheNewIsWhole) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.html";
  const std::string page = page_of(page_facts());
  write_text(path, "old");
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(error_of([&] { write_page(path, page); }).code(), ExitCode::io);
  }
  EXPECT_EQ(read_text(path), "old");
  write_page(path, page);
  EXPECT_EQ(read_text(path), page);
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

}  // namespace
}  // namespace carillon::testing
