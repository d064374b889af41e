"""Runs every acceptance check against built programs and prints one table; exits 1 when a check fails.

  tests/acceptance/run_all.py --bin build/bin --data DIRECTORY_OF_MNIST --cifar10 FOLDER_OR_ARCHIVE
  tests/acceptance/run_all.py --bin build/bin --quick --only check_parity

Needs numpy and h5py; PyTorch for check_cifar_parity and check_resnet_parity, and TensorFlow for one check of the full form. --data: the four
IDX files, of MNIST or in its format; check_accuracy runs on MNIST itself only. --cifar10: the binary version, or else a
sample of it.
"""

import check_accuracy
import check_bad_input
import check_checkpoint
import check_cifar_augment
import check_cifar_bad_input
import check_cifar_parity
import check_evaluation
import check_events
import check_faults
import check_logs
import check_micro_batches
import check_parity
import check_plots
import check_ranks
import check_resnet_parity
import check_resume
import check_signals
import check_stalls
import check_start
import check_writers
import programs

if __name__ == "__main__":
    programs.main(
        *(
            module.check
            for module in (
                check_parity,
                check_ranks,
                check_micro_batches,
                check_resume,
                check_checkpoint,
                check_writers,
                check_bad_input,
                check_faults,
                check_evaluation,
                check_events,
                check_logs,
                check_plots,
                check_start,
                check_signals,
                check_stalls,
                check_cifar_parity,
                check_resnet_parity,
                check_cifar_augment,
                check_cifar_bad_input,
                check_accuracy,
            )
        )
    )
