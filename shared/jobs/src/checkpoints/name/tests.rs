use super::*;

/// `expect`: the step, or of an ambiguous name the number that is taken.
#[track_caller]
fn check(names: &[&str], expect: Option<u64>, is_ambiguous: bool) {
    for name in names {
        assert_eq!(
            step_of(name).map(|named| (named.step, named.is_ambiguous)),
            expect.map(|step| (step, is_ambiguous)),
            "{name}"
        );
    }
}

/// What each framework calls its checkpoints by default, or in its own documentation, with the version that was read, and where that
/// stands.
#[test]
fn each_framework_s_names_say_their_step() {
    let table: &[(&str, &str, Option<u64>)] = &[
        // transformers 5.23.0, transformers/trainer_utils.py: PREFIX_CHECKPOINT_DIR.
        ("Hugging Face Trainer", "checkpoint-500", Some(500)),
        // accelerate 1.15.0, accelerate/accelerator.py: save_state; github.com/huggingface/accelerate,
        // examples/by_feature/checkpointing.py.
        ("Accelerate", "checkpoint_7", Some(7)),
        ("Accelerate", "step_100", Some(100)),
        ("Accelerate", "epoch_1", Some(1)),
        // lightning 2.6.6, lightning/pytorch/callbacks/model_checkpoint.py, on_exception_checkpoint.py.
        ("Lightning", "epoch=13-step=1200.ckpt", Some(1200)),
        ("Lightning", "epoch=13-step=1200-v1.ckpt", Some(1200)),
        ("Lightning", "sample-mnist-epoch=02-val_loss=0.32.ckpt", Some(2)),
        ("Lightning", "sample-mnist-epoch02-val_loss0.32.ckpt", Some(2)),
        ("Lightning", "epoch=2-val_loss=0.02-other_metric=0.03.ckpt", Some(2)),
        ("Lightning", "epoch=3-val_loss=2.91-v2.ckpt", Some(3)),
        ("Lightning", "epoch=3-val_acc=88.ckpt", Some(3)),
        ("Lightning", "02-2.91.ckpt", Some(2)),
        ("Lightning", "last.ckpt", None),
        ("Lightning", "last-v1.ckpt", None),
        ("Lightning", "on_exception.ckpt", None),
        // keras 3.15.1, keras/src/callbacks/model_checkpoint.py, backup_and_restore.py; tensorflow.org/tutorials/keras/save_and_load.
        ("Keras", "02-2.91.keras", Some(2)),
        ("Keras", "02-2.91.weights.h5", Some(2)),
        ("Keras", "weights.40.h5", Some(40)),
        ("Keras", "cp-0004.weights.h5", Some(4)),
        ("Keras", "checkpoint.model.keras", None),
        ("Keras", "latest.weights.h5", None),
        ("Keras", "training_metadata.json", None),
        // tensorflow 2.21.0, tensorflow/python/checkpoint/checkpoint_management.py: CheckpointManager.save.
        ("TensorFlow", "ckpt-500.index", Some(500)),
        ("TensorFlow", "ckpt-500.data-00000-of-00001", Some(500)),
        ("TensorFlow", "checkpoint", None),
        // orbax-checkpoint 0.12.8, orbax/checkpoint/_src/path/step.py: _StandardNameFormat.
        ("Orbax", "500", Some(500)),
        ("Orbax", "step_00000500", Some(500)),
        // torchtitan 0.3.0, torchtitan/components/checkpointer/dcp.py.
        ("DCP", "step-500", Some(500)),
        // deepspeed 0.19.8, deepspeed/runtime/engine.py: save_checkpoint.
        ("DeepSpeed", "global_step7", Some(7)),
        ("DeepSpeed", "latest", None),
        // github.com/NVIDIA/Megatron-LM, megatron/training/checkpointing.py: get_checkpoint_name, get_checkpoint_tracker_filename.
        ("Megatron", "iter_0000500", Some(500)),
        ("Megatron", "latest_checkpointed_iteration.txt", None),
        // github.com/NVIDIA/NeMo, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml: checkpoint_callback_params.filename.
        ("NeMo", "megatron_gpt--val_loss=2.91-step=1000-consumed_samples=64000.0-last.ckpt", Some(1000)),
        // xgboost 3.2.0, xgboost/callback.py: TrainingCheckPoint.
        ("XGBoost", "model_10.ubj", Some(10)),
        ("XGBoost", "model_10.pkl", Some(10)),
        ("XGBoost", "model_10.json", Some(10)),
        // lightgbm 4.7.0, src/boosting/gbdt.cpp: snapshot_freq.
        ("LightGBM", "LightGBM_model.txt.snapshot_iter_10", Some(10)),
        ("LightGBM", "model.txt", None),
        // ultralytics 8.4.190, ultralytics/engine/trainer.py: save_model.
        ("ultralytics", "epoch10.pt", Some(10)),
        ("ultralytics", "last.pt", None),
        ("ultralytics", "best.pt", None),
        // mmengine 0.10.7, mmengine/hooks/checkpoint_hook.py: filename_tmpl.
        ("MMEngine", "epoch_12.pth", Some(12)),
        ("MMEngine", "iter_1000.pth", Some(1000)),
        ("MMEngine", "last_checkpoint", None),
        // fvcore 0.1.5, fvcore/common/checkpoint.py: PeriodicCheckpointer.step.
        ("detectron2", "model_0004999.pth", Some(4999)),
        ("detectron2", "model_final.pth", None),
        // stable-baselines3 2.9.2, stable_baselines3/common/callbacks.py: CheckpointCallback._checkpoint_path.
        ("Stable-Baselines3", "rl_model_10000_steps.zip", Some(10_000)),
        ("Stable-Baselines3", "rl_model_replay_buffer_10000_steps.pkl", Some(10_000)),
        // github.com/openai/guided-diffusion, guided_diffusion/train_util.py: TrainLoop.save.
        ("guided-diffusion", "ema_0.9999_100000.pt", Some(100_000)),
        ("guided-diffusion", "model100000.pt", Some(100_000)),
        // timm 1.0.31, timm/utils/checkpoint_saver.py.
        ("timm", "checkpoint-12.pth.tar", Some(12)),
        ("timm", "milestone-12.pth.tar", Some(12)),
        ("timm", "last.pth.tar", None),
        // fairseq 0.12.2, fairseq/checkpoint_utils.py: save_checkpoint.
        ("fairseq", "checkpoint3.pt", Some(3)),
        ("fairseq", "checkpoint_last.pt", None),
        // docs.ray.io/en/latest/train/user-guides/checkpoints.html.
        ("Ray", "checkpoint_000010", Some(10)),
    ];
    for (framework, name, expect) in table {
        let named = step_of(name).map(|named| (named.step, named.is_ambiguous));
        assert_eq!(named, expect.map(|step| (step, false)), "{framework}: {name}");
    }
}

#[test]
fn a_step_is_a_whole_number_by_its_key_or_alone() {
    check(
        &["000100.pt", "schritt–100", "weights.100.7z", "step-100-model-00003-of-00004.safetensors"],
        Some(100),
        false,
    );
    check(
        &["llama-7b-step100", "2026-11-23_step100", "STEP=100", "global_step100-3", "a_100_steps.zip"],
        Some(100),
        false,
    );
    check(&["epoch=3-top5=88.ckpt", "resnet_v2_3.pt", "lr1e_3.pt", "epoch_3_loss_2"], Some(3), false);
    check(&["pytorch_model-00001-of-00002-40.h5", "step=40-epoch=3.ckpt"], Some(40), false);
    check(&["best-of-3", "run-a-of-3.pt"], Some(3), false);
}

#[test]
fn a_metric_a_version_a_part_or_a_word_with_digits_is_no_step() {
    check(&["val_loss=2.91.ckpt", "val_loss=3.ckpt", "2.91.pt", "model-v1.pt", "version_0", "llama-7b"], None, false);
    check(&["model-00001-of-00004.safetensors", "model-3f2a9b1.pt", "", "model.pt"], None, false);
    check(&["99999999999999999999999", "a1b2"], None, false);
}

#[test]
fn several_numbers_without_a_key_are_ambiguous_and_the_last_is_taken() {
    check(&["checkpoint_5_1000.pt", "run3_model_1000.pt", "2026-11-1000"], Some(1000), true);
    check(&["model_3_0.52_7.pt"], Some(7), true);
    // fairseq 0.12.2, fairseq/checkpoint_utils.py; timm 1.0.31, timm/utils/checkpoint_saver.py: an epoch and a batch.
    check(&["checkpoint_3_1000.pt", "recovery-3-1000.pth.tar"], Some(1000), true);
}

#[test]
fn the_finest_counter_is_the_step() {
    let with = |names: &[&str], step, epoch: Option<u64>| {
        for name in names {
            assert_eq!(step_of(name), Some(NamedStep { step, epoch, is_ambiguous: false }), "{name}");
        }
    };
    with(
        &["ep2-ba100-rank0.pt", "Epoch2Step100", "epoch2step100", "step_100_epoch_2_batch_7", "ep_2_it_100.pth"],
        100,
        Some(2),
    );
    with(&["globalStep100", "step-100_rank3.pt", "checkpoint_100.th.1", "checkpoint_100.tmp-1700000000"], 100, None);
    with(
        &["model_state_e3_b40_w0.th", "model_state_epoch_3_batch_40.th", "model.pt.ep3.040", "epoch_3_40.pt"],
        40,
        Some(3),
    );
    with(
        &["network-snapshot-kimg000200.pkl", "ep1-samples200", "batch-200.pt"]
            .map(|name| name.trim_start_matches("ep1-")),
        200,
        None,
    );
    with(&["80k_steps.pt", "iter_80k.pth"], 80_000, None);
    with(&["1epoch.pth", "model_epoch_1_rank3.pt", "checkpoint_p0-1", "yolov3_1.weights", "epoch_1_loss_2"], 1, None);
    with(&["CKPT+2024-01-02+12-30-05+00", "checkpoint_2024-01-02_12-30-05.123456"], 20_240_102_123_005, None);
    check(&["vocab-32k", "gpt-350m.pt", "yolov3_final.weights", "model_w0.pt"], None, false);
    // mindspore/python/mindspore/train/callback/_checkpoint.py: an epoch, and the step in it.
    assert_eq!(step_of("CKP-2_1875.ckpt"), Some(NamedStep { step: 1875, epoch: Some(2), is_ambiguous: true }));
}
