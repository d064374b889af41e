// The facts that a checkpoint contains about its training: the network's description, the form of the records, and the
// meaning of the outputs. With these facts, other programs than the training program can evaluate the network, export
// it, and predict with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "carillon/data/decoder.h"
#include "carillon/models/network.h"
#include "carillon/tasks/task.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/picture_options.h"

namespace carillon {

/// Adds to `description` the facts about records that are not pictures, and the class names if they are known.
/// `is_own_task`: the task belongs to the program (ProgramSpec::make_task).
void describe_records(const RecordForm& form, const Task& task, bool is_own_task,
                      const std::vector<std::string>& class_names, RunDescription& description);

/// Returns the name of the record form: "grey" or "planar" (RecordForm), or "own". "own" means that only the program
/// that trained the network knows the records' format or the meaning of their targets.
std::string trained_record_form(const LoadedCheckpoint& loaded);
/// True if checkpoints can name the decoder of this form, so that every program can read such records.
bool has_named_decoder(const RecordForm& form);
/// Returns the form of the records of a training, without the image shape. `options_json`: the options in its
/// checkpoint. Errors: data (the options are damaged; the records are pictures; the decoder belongs to the program that
/// trained the network).
RecordForm described_records(const std::string& options_json);

/// Returns Carillon's op types, followed by `own`.
std::vector<const OpType*> known_op_types(const std::vector<const OpType*>& own);
/// Returns the network of the checkpoint, for images of the shape that evaluations use. `own_types`: op types that
/// Carillon does not have. Errors: data (the description is damaged; the number of the network's outputs differs from
/// the number of classes, labels or numbers in its target).
Network network_of(const LoadedCheckpoint& loaded, const std::vector<const OpType*>& own_types = {});
/// Replaces the factor by which the network's input op scales the pixels. Does nothing if no op scales the pixels.
void set_pixel_scale(Network& network, float scale);

/// Returns the picture options of the training, or nullopt if image_train did not train the network. Errors: data (the
/// options are damaged).
std::optional<PictureOptions> trained_pictures(const LoadedCheckpoint& loaded);
/// Returns how evaluations and predictions of the checkpoint's network turn a picture into an image. `image`: shape of
/// the image that the network reads in an evaluation. Errors: data.
PictureDecoding trained_decoding(const LoadedCheckpoint& loaded, const ImageShape& image);

/// The meaning of a network's outputs.
struct TrainedTarget {
  TargetKind kind = TargetKind::class_index;
  std::int64_t outputs = 0;              ///< number of classes, labels or numbers
  std::vector<std::string> names = {};   ///< names of the outputs; empty: unknown
  std::vector<NumberScale> scales = {};  ///< scales of the numbers of a regression; empty: not standardised
};
/// Reads the meaning of the outputs from the options in the checkpoint. Errors: data.
TrainedTarget trained_target(const LoadedCheckpoint& loaded);

/// True if the training kept moving averages. If the training did not keep them (--moving-average-decay 0), the moving
/// averages in the checkpoint are equal to the variables, except for rounding.
bool has_moving_averages(const LoadedCheckpoint& loaded);

/// True if the training computed in bf16.
bool was_trained_in_bf16(const LoadedCheckpoint& loaded);

}  // namespace carillon
