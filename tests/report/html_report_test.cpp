#include "src/report/html_report.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "src/tasks/accuracy.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/markup.h"

namespace carillon::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// What a report refers to, and the report.
struct Case {
  Predictions predictions;
  Calibration calibration;
  HtmlReport report{.predictions = predictions, .calibration = calibration};

  Case(std::size_t classes, std::size_t samples) : predictions{.class_count = classes} {
    std::uint32_t state = 1;
    const auto draw = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    std::int64_t correct = 0;
    for (std::size_t i = 0; i < samples; ++i) {
      Prediction& sample = predictions.samples.emplace_back();
      sample.label = static_cast<std::int32_t>(draw() % classes);
      const bool is_right = draw() % 4 > 0;
      sample.classes[0] = is_right ? sample.label : static_cast<std::int32_t>(draw() % classes);
      sample.probabilities[0] = (1.0 + draw() % 1000) / 1001.0;
      calibration.add(sample.confidence(), !sample.is_mistake());
      correct += sample.is_mistake() ? 0 : 1;
    }
    const Accuracy accuracy{correct, static_cast<std::int64_t>(samples)};
    report.checkpoint = "runs/a/model.ckpt-7.h5";
    report.model = "resnet9";
    report.values = "moving averages";
    report.step = 700;
    report.version = "image_eval (Carillon) 0.1.0";
    report.records = {"data/test-*"};
    report.scores = {accuracy.score(), {.name = "cross_entropy", .value = 0.5}, {.name = "top_5", .value = 0.987654}};
    for (const std::size_t i : most_certain_mistakes(predictions.samples, max_report_pictures)) {
      report.mistakes.push_back(shown(i));
    }
    for (const std::size_t i : least_certain(predictions.samples, max_report_pictures)) {
      report.uncertain.push_back(shown(i));
    }
    for (int step = 0; step < 1000; ++step) {
      report.curves.loss.push_back({static_cast<double>(step), 2.0 / (1.0 + step)});
      report.curves.learning_rate.push_back({static_cast<double>(step), 0.1});
      if (step % 100 == 99) report.curves.evaluations.push_back({step, {0.5 + step / 3000.0, 1.0}});
    }
    report.options = {{"--learning-rate", "0.1"}};
  }

  ShownPrediction shown(std::size_t i) const {
    const Prediction& sample = predictions.samples[i];
    Picture picture{.height = 96, .width = 96, .channels = 3, .pixels = {}};
    for (int p = 0; p < 96 * 96 * 3; ++p) picture.pixels.push_back(static_cast<std::uint8_t>(p * 7919 % 256));
    return {.picture = picture,
            .true_class = std::to_string(sample.label),
            .predicted = std::to_string(sample.predicted()),
            .probability = sample.confidence(),
            .is_mistake = sample.is_mistake(),
            .origin = "test-0: record 1"};
  }
};

std::ptrdiff_t count(const Markup& page, const std::string& element) {
  return std::ranges::count(page.elements, element);
}

TEST(HtmlReport, IsWellFormedAndSmallWithAnyNumberOfClasses) {
  for (const std::size_t classes : {std::size_t{1}, std::size_t{2}, std::size_t{10}, std::size_t{1000}}) {
    const Case made(classes, 5000);
    const std::string text = html_report(made.report);
    const Markup page(text);
    EXPECT_EQ(page.fault, "") << classes;
    EXPECT_LT(text.size(), std::size_t{10} << 20) << classes;
    EXPECT_THAT(page.text, HasSubstr("runs/a/model.ckpt-7.h5: moving averages at step 700, 5000 records"));
    EXPECT_EQ(count(page, "section"), 7) << classes;
    EXPECT_EQ(count(page, "svg"), 4) << classes;
    EXPECT_EQ(html_report(made.report), text);
  }
}

/// All resources are in the page, and it forbids others.
TEST(HtmlReport, UsesNoNetwork) {
  const std::string text = html_report(Case(10, 500).report);
  for (const char* const reference : {"http:", "https:", "url(", "@import", "<link", "<iframe", "src=\"/"}) {
    EXPECT_THAT(text, Not(HasSubstr(reference)));
  }
  EXPECT_THAT(Markup(text).values, Contains(HasSubstr("default-src 'none'; img-src data:")));
  const auto is_address = [](const std::string& value) { return value.starts_with("data:image/jpeg;base64,/9j/"); };
  EXPECT_EQ(std::ranges::count_if(Markup(text).values, is_address), 48);
}

TEST(HtmlReport, ShowsNamesAsTheyAre) {
  const std::string name = "<b>&\"'</script>", hidden = "a\u202Eb\x01\xFF";
  Case made(2, 100);
  made.report.class_names = {name, hidden};
  made.report.model = made.report.checkpoint = made.report.version = name;
  made.report.records = {name};
  made.report.options = {{name, name}};
  for (std::vector<ShownPrediction>* const list : {&made.report.mistakes, &made.report.uncertain}) {
    for (ShownPrediction& one : *list) one.true_class = one.predicted = one.origin = name;
  }
  const std::string text = html_report(made.report);
  const Markup page(text);
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count(page, "script"), 1);
  EXPECT_EQ(count(page, "b"), 4) << "only those of the charts";
  EXPECT_THAT(page.text, AllOf(HasSubstr(name), HasSubstr("a\\xe2\\x80\\xaeb\\x01\\xff")));
  EXPECT_THAT(page.values, Contains(name));
}

TEST(HtmlReport, CountsTheRecordsByClass) {
  Case made(3, 0);
  const std::pair<int, int> samples[] = {{0, 0}, {0, 0}, {0, 2}, {2, 2}, {2, 0}, {0, 2}};
  for (const auto& [label, predicted] : samples) {
    Prediction& sample = made.predictions.samples.emplace_back();
    sample.label = label;
    sample.classes[0] = predicted;
    sample.probabilities[0] = 0.5;
  }
  made.report.class_names = {"ant", "bee", "cow"};
  const std::string text = html_report(made.report);
  EXPECT_THAT(text,
              HasSubstr("<th scope=\"row\" title=\"ant\"><bdi>ant</bdi></th><td class=\"t\" style=\"--s:0.33\">2</td>"
                        "<td class=\"z\">0</td><td class=\"f\" style=\"--s:0.33\">2</td></tr>"));
  const auto cells = [](const std::vector<std::string>& values) {
    std::string row;
    for (const std::string& value : values) row += "<td class=\"n\">" + value + "</td>";
    return row;
  };
  const auto name = [](const std::string& of) { return "<td class=\"name\"><bdi>" + of + "</bdi></td>"; };
  EXPECT_THAT(text, HasSubstr(cells({"0"}) + name("ant") + cells({"4", "3", "2", "0.6667", "0.5000", "0.5714"})));
  EXPECT_THAT(text, HasSubstr(cells({"1"}) + name("bee") + cells({"0", "0", "0", "–", "–", "–"})));
  EXPECT_THAT(text, HasSubstr(name("ant") + name("cow") + cells({"2", "50.00 %"}) + "</tr>\n<tr>" + name("cow") +
                              name("ant") + cells({"1", "50.00 %"})));
}

TEST(HtmlReport, ShowsTheClassesWithTheMostMistakesOfMany) {
  Case made(1000, 0);
  for (std::int32_t label = 0; label < 1000; ++label) {
    Prediction& sample = made.predictions.samples.emplace_back();
    sample.label = label;
    sample.classes[0] = label >= 500 && label < 530 ? 7 : label;
    sample.probabilities[0] = 1.0;
  }
  const std::string text = html_report(made.report);
  EXPECT_THAT(text, HasSubstr("the 25 of 1000 classes with the most mistakes"));
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\" title=\"524\">"));
  EXPECT_THAT(text, Not(HasSubstr("<th scope=\"row\" title=\"7\">")));
  EXPECT_THAT(text, HasSubstr("<td class=\"o\">1</td></tr>"));
}

TEST(HtmlReport, SaysThatThereAreNoMistakesOrNoCurves) {
  Case made(2, 0);
  made.predictions.samples.emplace_back().probabilities[0] = 1.0;
  made.report.curves = {};
  const Markup page(html_report(made.report));
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, AllOf(HasSubstr("There are no mistakes."), HasSubstr("has no metrics.jsonl")));
}

TEST(HtmlReport, LeavesTheOldOneUntilTheNewIsWhole) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.html";
  write_text(path, "old");
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(error_of([&] { write_html_report(path, Case(2, 10).report); }).code(), ExitCode::io);
  }
  EXPECT_EQ(read_text(path), "old");
  write_html_report(path, Case(2, 10).report);
  EXPECT_EQ(read_text(path), html_report(Case(2, 10).report));
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

}  // namespace
}  // namespace carillon::testing
