"""Every setting of a broker: Kafka 3.9's, those that 4.x added, and kavka's own at the end.

Decides names, types, defaults, ranges, importance and when a setting may change. Must not know what a setting is for in
words (`documentation.py`), nor how several combine (`broker.py`).

I1. Names, types, defaults, ranges, importance and modes are those of Apache Kafka 3.9; `newer=True` marks what only 4.x
    has, with 4.x's facts. tests/conformance/config holds every row against Kafka's own tables.
I2. kavka's own settings start with `kavka.` and stand in the last section.
"""

from __future__ import annotations

from typing import Final

from kavka.config.setting import (
    CLUSTER_WIDE,
    DOUBLE_MAX,
    HIGH,
    INT_MAX,
    LONG_MAX,
    LOW,
    MEDIUM,
    PER_BROKER,
    NotEmpty,
    Release,
    Settings,
    at_least,
    between,
    boolean,
    class_name,
    double,
    integer,
    long,
    one_of,
    password,
    short,
    string,
    string_list,
)

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


class BrokerSettings(Settings):
    """The table of a broker's settings, one row each."""

    # This broker, its listeners and its rack.
    advertised_listeners = string(None, importance=HIGH, mode=PER_BROKER)
    broker_id = integer(-1, importance=HIGH)
    broker_id_generation_enable = boolean(True)
    broker_rack = string(None)
    control_plane_listener_name = string(None, importance=HIGH)
    early_start_listeners = string(None, importance=HIGH)
    inter_broker_listener_name = string(None)
    inter_broker_protocol_version = string("3.9-IV0", Release())
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", importance=LOW, mode=PER_BROKER
    )
    listeners = string("PLAINTEXT://:9092", importance=HIGH, mode=PER_BROKER)
    node_id = integer(-1, importance=HIGH)
    reserved_broker_max_id = integer(1_000, at_least(0))
    security_inter_broker_protocol = string("PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))

    # ZooKeeper.
    zookeeper_client_cnxn_socket = string(None, name="zookeeper.clientCnxnSocket")
    zookeeper_connect = string(None, importance=HIGH)
    zookeeper_connection_timeout_ms = integer(None, importance=HIGH)
    zookeeper_max_in_flight_requests = integer(10, at_least(1), HIGH)
    zookeeper_metadata_migration_enable = boolean(False, HIGH)
    zookeeper_metadata_migration_min_batch_size = integer(200, at_least(1), internal=True)
    zookeeper_session_timeout_ms = integer(18_000, importance=HIGH)
    zookeeper_set_acl = boolean(False, HIGH)
    zookeeper_ssl_cipher_suites = string_list(None, importance=LOW)
    zookeeper_ssl_client_enable = boolean(False)
    zookeeper_ssl_crl_enable = boolean(False, LOW)
    zookeeper_ssl_enabled_protocols = string_list(None, importance=LOW)
    zookeeper_ssl_endpoint_identification_algorithm = string("HTTPS", importance=LOW)
    zookeeper_ssl_keystore_location = string(None)
    zookeeper_ssl_keystore_password = password()
    zookeeper_ssl_keystore_type = string(None)
    zookeeper_ssl_ocsp_enable = boolean(False, LOW)
    zookeeper_ssl_protocol = string("TLSv1.2", importance=LOW)
    zookeeper_ssl_truststore_location = string(None)
    zookeeper_ssl_truststore_password = password()
    zookeeper_ssl_truststore_type = string(None)

    # Sockets, threads and queues.
    background_threads = integer(10, at_least(1), HIGH, CLUSTER_WIDE)
    connection_failed_authentication_delay_ms = integer(100, at_least(0), LOW)
    connections_max_idle_ms = long(10 * MINUTE_MS)
    connections_max_reauth_ms = long(0)
    delete_records_purgatory_purge_interval_requests = integer(1)
    errors_deadletterqueue_auto_create_topics_enable = boolean(False, MEDIUM, CLUSTER_WIDE, newer=True)
    errors_deadletterqueue_topic_name_prefix = string("dlq.", importance=MEDIUM, mode=CLUSTER_WIDE, newer=True)
    fetch_max_bytes = integer(55 * MIB, at_least(1 * KIB))
    fetch_purgatory_purge_interval_requests = integer(1_000)
    max_connection_creation_rate = integer(INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE)
    max_connections = integer(INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE)
    max_connections_per_ip = integer(INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE)
    max_connections_per_ip_overrides = string("", mode=CLUSTER_WIDE)
    max_incremental_fetch_session_cache_slots = integer(1_000, at_least(0))
    max_request_partition_size_limit = integer(2_000, at_least(1))
    num_io_threads = integer(8, at_least(1), HIGH, CLUSTER_WIDE)
    num_network_threads = integer(3, at_least(1), HIGH, CLUSTER_WIDE)
    num_recovery_threads_per_data_dir = integer(1, at_least(1), HIGH, CLUSTER_WIDE)
    producer_purgatory_purge_interval_requests = integer(1_000)
    queued_max_request_bytes = long(-1)
    queued_max_requests = integer(500, at_least(1), HIGH)
    request_timeout_ms = integer(30_000, importance=HIGH)
    server_max_startup_time_ms = long(LONG_MAX, at_least(0), internal=True)
    share_fetch_purgatory_purge_interval_requests = integer(1_000, newer=True)
    socket_connection_setup_timeout_max_ms = long(30_000)
    socket_connection_setup_timeout_ms = long(10_000)
    socket_listen_backlog_size = integer(50, at_least(1))
    socket_receive_buffer_bytes = integer(100 * KIB, importance=HIGH)
    socket_request_max_bytes = integer(100 * MIB, at_least(1), HIGH)
    socket_send_buffer_bytes = integer(100 * KIB, importance=HIGH)

    # Topics.
    alter_config_policy_class_name = class_name(None, importance=LOW)
    alter_config_policy_kraft_compatibility_enable = boolean(False, LOW)
    auto_create_topics_enable = boolean(True, HIGH)
    compression_gzip_level = integer(-1, between(1, 9, extra=-1), MEDIUM, CLUSTER_WIDE)
    compression_lz4_level = integer(9, between(1, 17), MEDIUM, CLUSTER_WIDE)
    compression_type = string(
        "producer", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), HIGH, CLUSTER_WIDE
    )
    compression_zstd_level = integer(3, between(-131_072, 22), MEDIUM, CLUSTER_WIDE)
    create_topic_policy_class_name = class_name(None, importance=LOW)
    default_replication_factor = integer(1)
    delete_topic_enable = boolean(True, HIGH)
    message_max_bytes = integer(1_048_588, at_least(0), HIGH, CLUSTER_WIDE)
    min_insync_replicas = integer(1, at_least(1), HIGH, CLUSTER_WIDE)
    num_partitions = integer(1, at_least(1))
    unclean_leader_election_enable = boolean(False, HIGH, CLUSTER_WIDE)
    unclean_leader_election_interval_ms = long(5 * MINUTE_MS, at_least(1), internal=True)

    # Log directories, segments and retention.
    cordoned_log_dirs = string_list("", mode=PER_BROKER, newer=True)
    log_cleanup_policy = string_list("delete", one_of("compact", "delete"), MEDIUM, CLUSTER_WIDE)
    log_dir = string("/tmp/kafka-logs", importance=HIGH)
    log_dir_failure_timeout_ms = long(30_000, at_least(1), LOW)
    log_dirs = string(None, importance=HIGH)
    log_flush_interval_messages = long(LONG_MAX, at_least(1), HIGH, CLUSTER_WIDE)
    log_flush_interval_ms = long(None, importance=HIGH, mode=CLUSTER_WIDE)
    log_flush_offset_checkpoint_interval_ms = integer(1 * MINUTE_MS, at_least(0), HIGH)
    log_flush_scheduler_interval_ms = long(LONG_MAX, importance=HIGH)
    log_flush_start_offset_checkpoint_interval_ms = integer(1 * MINUTE_MS, at_least(0), HIGH)
    log_index_interval_bytes = integer(4 * KIB, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_index_size_max_bytes = integer(10 * MIB, at_least(4), MEDIUM, CLUSTER_WIDE)
    log_initial_task_delay_ms = long(None, at_least(0), LOW, internal=True)
    log_local_retention_bytes = long(-2, at_least(-2), MEDIUM, CLUSTER_WIDE)
    log_local_retention_ms = long(-2, at_least(-2), MEDIUM, CLUSTER_WIDE)
    log_message_downconversion_enable = boolean(True, LOW, CLUSTER_WIDE)
    log_message_format_version = string("3.0-IV1", Release())
    log_message_timestamp_after_max_ms = long(LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_message_timestamp_before_max_ms = long(LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_message_timestamp_difference_max_ms = long(LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_message_timestamp_type = string("CreateTime", one_of("CreateTime", "LogAppendTime"), MEDIUM, CLUSTER_WIDE)
    log_preallocate = boolean(False, MEDIUM, CLUSTER_WIDE)
    log_retention_bytes = long(-1, importance=HIGH, mode=CLUSTER_WIDE)
    log_retention_check_interval_ms = long(5 * MINUTE_MS, at_least(1))
    log_retention_hours = integer(168, importance=HIGH)
    log_retention_minutes = integer(None, importance=HIGH)
    log_retention_ms = long(None, importance=HIGH, mode=CLUSTER_WIDE)
    log_roll_hours = integer(168, at_least(1), HIGH)
    log_roll_jitter_hours = integer(0, at_least(0), HIGH)
    log_roll_jitter_ms = long(None, importance=HIGH, mode=CLUSTER_WIDE)
    log_roll_ms = long(None, importance=HIGH, mode=CLUSTER_WIDE)
    log_segment_bytes = integer(1 * GIB, at_least(14), HIGH, CLUSTER_WIDE)
    log_segment_delete_delay_ms = long(1 * MINUTE_MS, at_least(0), HIGH, CLUSTER_WIDE)

    # Log cleaner.
    log_cleaner_backoff_ms = long(15_000, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_cleaner_dedupe_buffer_size = long(128 * MIB, mode=CLUSTER_WIDE)
    log_cleaner_delete_retention_ms = long(1 * DAY_MS, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_cleaner_enable = boolean(True)
    log_cleaner_io_buffer_load_factor = double(0.9, mode=CLUSTER_WIDE)
    log_cleaner_io_buffer_size = integer(512 * KIB, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second = double(DOUBLE_MAX, mode=CLUSTER_WIDE)
    log_cleaner_max_compaction_lag_ms = long(LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE)
    log_cleaner_min_cleanable_ratio = double(0.5, between(0, 1), MEDIUM, CLUSTER_WIDE)
    log_cleaner_min_compaction_lag_ms = long(0, at_least(0), MEDIUM, CLUSTER_WIDE)
    log_cleaner_threads = integer(1, at_least(0), MEDIUM, CLUSTER_WIDE)

    # Replication.
    auto_leader_rebalance_enable = boolean(True, HIGH)
    controlled_shutdown_enable = boolean(True)
    controlled_shutdown_max_retries = integer(3)
    controlled_shutdown_retry_backoff_ms = long(5_000)
    controller_socket_timeout_ms = integer(30_000)
    follower_fetch_last_tiered_offset_enable = boolean(False, MEDIUM, CLUSTER_WIDE, newer=True)
    leader_imbalance_check_interval_seconds = long(300, at_least(1), HIGH)
    leader_imbalance_per_broker_percentage = integer(10, importance=HIGH)
    num_replica_alter_log_dirs_threads = integer(None, importance=HIGH)
    num_replica_fetchers = integer(1, importance=HIGH, mode=CLUSTER_WIDE)
    replica_fetch_backoff_ms = integer(1_000, at_least(0))
    replica_fetch_max_bytes = integer(1 * MIB, at_least(0))
    replica_fetch_min_bytes = integer(1, importance=HIGH)
    replica_fetch_response_max_bytes = integer(10 * MIB, at_least(0))
    replica_fetch_wait_max_ms = integer(500, importance=HIGH)
    replica_high_watermark_checkpoint_interval_ms = long(5_000, importance=HIGH)
    replica_lag_time_max_ms = long(30_000, importance=HIGH)
    replica_selector_class = string(None)
    replica_socket_receive_buffer_bytes = integer(64 * KIB, importance=HIGH)
    replica_socket_timeout_ms = integer(30_000, importance=HIGH)

    # Groups and their offsets.
    group_coordinator_append_linger_ms = integer(10, at_least(0))
    group_coordinator_background_threads = integer(2, at_least(1), HIGH, newer=True)
    group_coordinator_cached_buffer_max_bytes = integer(
        1_048_588, at_least(512 * KIB), MEDIUM, CLUSTER_WIDE, newer=True
    )
    group_coordinator_new_enable = boolean(False, internal=True)
    group_coordinator_rebalance_protocols = string_list(
        "classic,consumer,streams", one_of("consumer", "classic", "share", "streams")
    )
    group_coordinator_threads = integer(1, at_least(1))
    group_initial_rebalance_delay_ms = integer(3_000)
    group_max_session_timeout_ms = integer(30 * MINUTE_MS)
    group_max_size = integer(INT_MAX, at_least(1))
    group_min_session_timeout_ms = integer(6_000)
    offset_metadata_max_bytes = integer(4 * KIB, importance=HIGH)
    offsets_commit_required_acks = short(-1, importance=HIGH)
    offsets_commit_timeout_ms = integer(5_000, at_least(1), HIGH)
    offsets_load_buffer_size = integer(5 * MIB, at_least(1), HIGH)
    offsets_retention_check_interval_ms = long(10 * MINUTE_MS, at_least(1), HIGH)
    offsets_retention_minutes = integer(10_080, at_least(1), HIGH)
    offsets_topic_compression_codec = integer(0, importance=HIGH)
    offsets_topic_num_partitions = integer(50, at_least(1), HIGH)
    offsets_topic_replication_factor = short(3, at_least(1), HIGH)
    offsets_topic_segment_bytes = integer(100 * MIB, at_least(1), HIGH)

    # Groups of the newer protocols (KIP-848, KIP-932, KIP-1071).
    group_consumer_assignment_interval_ms = integer(1_000, at_least(0), MEDIUM, CLUSTER_WIDE, newer=True)
    group_consumer_assignors = string_list(
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    )
    group_consumer_heartbeat_interval_ms = integer(5_000, at_least(1))
    group_consumer_max_assignment_interval_ms = integer(15_000, at_least(0), newer=True)
    group_consumer_max_heartbeat_interval_ms = integer(15_000, at_least(1))
    group_consumer_max_session_timeout_ms = integer(1 * MINUTE_MS, at_least(1))
    group_consumer_max_size = integer(INT_MAX, at_least(1))
    group_consumer_migration_policy = string(
        "bidirectional", one_of("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True), internal=True
    )
    group_consumer_min_assignment_interval_ms = integer(0, at_least(0), newer=True)
    group_consumer_min_heartbeat_interval_ms = integer(5_000, at_least(1))
    group_consumer_min_session_timeout_ms = integer(45_000, at_least(1))
    group_consumer_regex_refresh_interval_ms = integer(10 * MINUTE_MS, at_least(10_000), internal=True, newer=True)
    group_consumer_session_timeout_ms = integer(45_000, at_least(1))
    group_share_assignment_interval_ms = integer(1_000, at_least(0), MEDIUM, CLUSTER_WIDE, newer=True)
    group_share_assignors = string_list("simple", newer=True)
    group_share_delivery_count_limit = integer(5, between(2, 10))
    group_share_enable = boolean(False, internal=True)
    group_share_heartbeat_interval_ms = integer(5_000, at_least(1))
    group_share_initialize_retry_interval_ms = integer(30_000, at_least(1), LOW, internal=True, newer=True)
    group_share_max_assignment_interval_ms = integer(15_000, at_least(0), newer=True)
    group_share_max_delivery_count_limit = integer(10, between(5, 25), newer=True)
    group_share_max_groups = short(10, between(1, 100))
    group_share_max_heartbeat_interval_ms = integer(15_000, at_least(1))
    group_share_max_partition_max_record_locks = integer(4_000, between(2_000, 10_000), newer=True)
    group_share_max_record_lock_duration_ms = integer(1 * MINUTE_MS, between(30_000, 1 * HOUR_MS))
    group_share_max_session_timeout_ms = integer(1 * MINUTE_MS, at_least(1))
    group_share_max_share_sessions = integer(2_000, at_least(1), newer=True)
    group_share_max_size = short(200, between(10, 1_000))
    group_share_min_assignment_interval_ms = integer(0, at_least(0), newer=True)
    group_share_min_delivery_count_limit = integer(2, between(2, 5), newer=True)
    group_share_min_heartbeat_interval_ms = integer(5_000, at_least(1))
    group_share_min_partition_max_record_locks = integer(100, between(100, 2_000), newer=True)
    group_share_min_record_lock_duration_ms = integer(15_000, between(1_000, 30_000))
    group_share_min_session_timeout_ms = integer(45_000, at_least(1))
    group_share_partition_max_record_locks = integer(2_000, between(100, 10_000))
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister", internal=True, newer=True
    )
    group_share_record_lock_duration_ms = integer(30_000, between(1_000, 1 * MINUTE_MS))
    group_share_session_timeout_ms = integer(45_000, at_least(1))
    group_streams_assignment_interval_ms = integer(1_000, at_least(0), MEDIUM, CLUSTER_WIDE, newer=True)
    group_streams_heartbeat_interval_ms = integer(5_000, at_least(1), newer=True)
    group_streams_initial_rebalance_delay_ms = integer(3_000, at_least(0), newer=True)
    group_streams_max_assignment_interval_ms = integer(15_000, at_least(0), newer=True)
    group_streams_max_heartbeat_interval_ms = integer(15_000, at_least(1), newer=True)
    group_streams_max_session_timeout_ms = integer(1 * MINUTE_MS, at_least(1), newer=True)
    group_streams_max_size = integer(INT_MAX, at_least(1), newer=True)
    group_streams_max_standby_replicas = integer(2, at_least(0), newer=True)
    group_streams_min_assignment_interval_ms = integer(0, at_least(0), newer=True)
    group_streams_min_heartbeat_interval_ms = integer(5_000, at_least(1), newer=True)
    group_streams_min_session_timeout_ms = integer(45_000, at_least(1), newer=True)
    group_streams_num_standby_replicas = integer(0, at_least(0), newer=True)
    group_streams_session_timeout_ms = integer(45_000, at_least(1), newer=True)
    share_coordinator_append_linger_ms = integer(-1, at_least(-1), newer=True)
    share_coordinator_cached_buffer_max_bytes = integer(
        1_048_588, at_least(512 * KIB), MEDIUM, CLUSTER_WIDE, newer=True
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        5 * MINUTE_MS, at_least(1), LOW, internal=True, newer=True
    )
    share_coordinator_load_buffer_size = integer(5 * MIB, at_least(1), HIGH, newer=True)
    share_coordinator_snapshot_update_records_per_snapshot = integer(500, between(0, 500), newer=True)
    share_coordinator_state_topic_compression_codec = integer(0, importance=HIGH, newer=True)
    share_coordinator_state_topic_min_isr = short(2, at_least(1), HIGH, newer=True)
    share_coordinator_state_topic_num_partitions = integer(50, at_least(1), HIGH, newer=True)
    share_coordinator_state_topic_prune_interval_ms = integer(
        5 * MINUTE_MS, at_least(1), LOW, internal=True, newer=True
    )
    share_coordinator_state_topic_replication_factor = short(3, at_least(1), HIGH, newer=True)
    share_coordinator_state_topic_segment_bytes = integer(100 * MIB, at_least(1), HIGH, newer=True)
    share_coordinator_threads = integer(1, at_least(1), newer=True)
    share_coordinator_write_timeout_ms = integer(5_000, at_least(1), HIGH, newer=True)

    # Producers and transactions.
    add_partitions_to_txn_retry_backoff_max_ms = integer(100, at_least(0), HIGH, newer=True)
    add_partitions_to_txn_retry_backoff_ms = integer(20, at_least(1), HIGH, newer=True)
    producer_id_expiration_check_interval_ms = integer(10 * MINUTE_MS, at_least(1), LOW, internal=True)
    producer_id_expiration_ms = integer(1 * DAY_MS, at_least(1), LOW, CLUSTER_WIDE)
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(10_000, at_least(1), LOW)
    transaction_max_timeout_ms = integer(15 * MINUTE_MS, at_least(1), HIGH)
    transaction_partition_verification_enable = boolean(True, LOW, CLUSTER_WIDE)
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(1 * HOUR_MS, at_least(1), LOW)
    transaction_state_log_load_buffer_size = integer(5 * MIB, at_least(1), HIGH)
    transaction_state_log_min_isr = integer(2, at_least(1), HIGH)
    transaction_state_log_num_partitions = integer(50, at_least(1), HIGH)
    transaction_state_log_replication_factor = short(3, at_least(1), HIGH)
    transaction_state_log_segment_bytes = integer(100 * MIB, at_least(1), HIGH)
    transaction_two_phase_commit_enable = boolean(False, LOW, newer=True)
    transactional_id_expiration_ms = integer(7 * DAY_MS, at_least(1), HIGH)

    # Quotas.
    alter_log_dirs_replication_quota_window_num = integer(11, at_least(1), LOW)
    alter_log_dirs_replication_quota_window_size_seconds = integer(1, at_least(1), LOW)
    client_quota_callback_class = class_name(None, importance=LOW)
    controller_quota_window_num = integer(11, at_least(1), LOW)
    controller_quota_window_size_seconds = integer(1, at_least(1), LOW)
    quota_window_num = integer(11, at_least(1), LOW)
    quota_window_size_seconds = integer(1, at_least(1), LOW)
    replication_quota_window_num = integer(11, at_least(1), LOW)
    replication_quota_window_size_seconds = integer(1, at_least(1), LOW)

    # Metrics and telemetry.
    auto_include_jmx_reporter = boolean(True, LOW)
    kafka_metrics_polling_interval_secs = integer(10, at_least(1), LOW)
    kafka_metrics_reporters = string_list("", importance=LOW)
    metric_reporters = string_list("", importance=LOW, mode=CLUSTER_WIDE)
    metrics_num_samples = integer(2, at_least(1), LOW)
    metrics_recording_level = string("INFO", importance=LOW)
    metrics_sample_window_ms = long(30_000, at_least(1), LOW)
    telemetry_max_bytes = integer(1 * MIB, at_least(1), LOW)

    # Security: principals, tokens, passwords.
    allow_everyone_if_no_acl_found = boolean(False, MEDIUM, newer=True)
    authorizer_class_name = string("", importance=LOW)
    config_providers = string_list("", importance=LOW, mode=CLUSTER_WIDE, newer=True)
    delegation_token_expiry_check_interval_ms = long(1 * HOUR_MS, at_least(1), LOW)
    delegation_token_expiry_time_ms = long(1 * DAY_MS, at_least(1))
    delegation_token_master_key = password()
    delegation_token_max_lifetime_ms = long(7 * DAY_MS, at_least(1))
    delegation_token_secret_key = password()
    super_users = string("", importance=MEDIUM, newer=True)
    password_encoder_cipher_algorithm = string("AES/CBC/PKCS5Padding", importance=LOW)
    password_encoder_iterations = integer(4_096, at_least(1_024), LOW)
    password_encoder_key_length = integer(128, at_least(8), LOW)
    password_encoder_keyfactory_algorithm = string(None, importance=LOW)
    password_encoder_old_secret = password()
    password_encoder_secret = password()
    principal_builder_class = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", mode=PER_BROKER
    )
    security_providers = string(None, importance=LOW)

    # Security: SASL.
    sasl_client_callback_handler_class = class_name(None)
    sasl_enabled_mechanisms = string_list("GSSAPI", mode=PER_BROKER)
    sasl_jaas_config = password(MEDIUM, PER_BROKER)
    sasl_kerberos_kinit_cmd = string("/usr/bin/kinit", mode=PER_BROKER)
    sasl_kerberos_min_time_before_relogin = long(60_000, mode=PER_BROKER)
    sasl_kerberos_principal_to_local_rules = string_list("DEFAULT", mode=PER_BROKER)
    sasl_kerberos_service_name = string(None, mode=PER_BROKER)
    sasl_kerberos_ticket_renew_jitter = double(0.05, mode=PER_BROKER)
    sasl_kerberos_ticket_renew_window_factor = double(0.8, mode=PER_BROKER)
    sasl_login_callback_handler_class = class_name(None)
    sasl_login_class = class_name(None)
    sasl_login_connect_timeout_ms = integer(None, importance=LOW)
    sasl_login_read_timeout_ms = integer(None, importance=LOW)
    sasl_login_refresh_buffer_seconds = short(300, mode=PER_BROKER)
    sasl_login_refresh_min_period_seconds = short(60, mode=PER_BROKER)
    sasl_login_refresh_window_factor = double(0.8, mode=PER_BROKER)
    sasl_login_refresh_window_jitter = double(0.05, mode=PER_BROKER)
    sasl_login_retry_backoff_max_ms = long(10_000, importance=LOW)
    sasl_login_retry_backoff_ms = long(100, importance=LOW)
    sasl_mechanism_controller_protocol = string("GSSAPI", importance=HIGH)
    sasl_mechanism_inter_broker_protocol = string("GSSAPI", mode=PER_BROKER)
    sasl_oauthbearer_assertion_algorithm = string("RS256", one_of("ES256", "RS256", ignore_case=True), newer=True)
    sasl_oauthbearer_assertion_claim_aud = string(None, newer=True)
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(300, between(0, 86_400), LOW, newer=True)
    sasl_oauthbearer_assertion_claim_iss = string(None, newer=True)
    sasl_oauthbearer_assertion_claim_jti_include = boolean(False, newer=True)
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(60, between(0, 3_600), LOW, newer=True)
    sasl_oauthbearer_assertion_claim_sub = string(None, newer=True)
    sasl_oauthbearer_assertion_file = string(None, newer=True)
    sasl_oauthbearer_assertion_private_key_file = string(None, newer=True)
    sasl_oauthbearer_assertion_private_key_passphrase = password(newer=True)
    sasl_oauthbearer_assertion_template_file = string(None, newer=True)
    sasl_oauthbearer_client_credentials_client_id = string(None, newer=True)
    sasl_oauthbearer_client_credentials_client_secret = password(newer=True)
    sasl_oauthbearer_clock_skew_seconds = integer(30, importance=LOW)
    sasl_oauthbearer_expected_audience = string_list(None, importance=LOW)
    sasl_oauthbearer_expected_issuer = string(None, importance=LOW)
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(1 * HOUR_MS, importance=LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(10_000, importance=LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(100, importance=LOW)
    sasl_oauthbearer_jwks_endpoint_url = string(None)
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", newer=True
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", newer=True
    )
    sasl_oauthbearer_scope = string(None, newer=True)
    sasl_oauthbearer_scope_claim_name = string("scope", importance=LOW)
    sasl_oauthbearer_sub_claim_name = string("sub", importance=LOW)
    sasl_oauthbearer_token_endpoint_url = string(None)
    sasl_server_callback_handler_class = class_name(None)
    sasl_server_max_receive_size = integer(512 * KIB)

    # Security: TLS.
    ssl_allow_dn_changes = boolean(False, LOW)
    ssl_allow_san_changes = boolean(False, LOW)
    ssl_cipher_suites = string_list("", mode=PER_BROKER)
    ssl_client_auth = string("none", one_of("required", "requested", "none"), MEDIUM, PER_BROKER)
    ssl_enabled_protocols = string_list("TLSv1.2,TLSv1.3", mode=PER_BROKER)
    ssl_endpoint_identification_algorithm = string("https", importance=LOW, mode=PER_BROKER)
    ssl_engine_factory_class = class_name(None, importance=LOW, mode=PER_BROKER)
    ssl_key_password = password(MEDIUM, PER_BROKER)
    ssl_keymanager_algorithm = string("SunX509", mode=PER_BROKER)
    ssl_keystore_certificate_chain = password(MEDIUM, PER_BROKER)
    ssl_keystore_key = password(MEDIUM, PER_BROKER)
    ssl_keystore_location = string(None, mode=PER_BROKER)
    ssl_keystore_password = password(MEDIUM, PER_BROKER)
    ssl_keystore_type = string("JKS", mode=PER_BROKER)
    ssl_principal_mapping_rules = string("DEFAULT", importance=LOW)
    ssl_protocol = string("TLSv1.3", mode=PER_BROKER)
    ssl_provider = string(None, mode=PER_BROKER)
    ssl_secure_random_implementation = string(None, importance=LOW, mode=PER_BROKER)
    ssl_trustmanager_algorithm = string("PKIX", mode=PER_BROKER)
    ssl_truststore_certificates = password(MEDIUM, PER_BROKER)
    ssl_truststore_location = string(None, mode=PER_BROKER)
    ssl_truststore_password = password(MEDIUM, PER_BROKER)
    ssl_truststore_type = string("JKS", mode=PER_BROKER)

    # Remote log storage (KIP-405).
    remote_fetch_max_wait_ms = integer(500, at_least(1), MEDIUM, CLUSTER_WIDE)
    remote_list_offsets_request_timeout_ms = long(30_000, at_least(1), MEDIUM, CLUSTER_WIDE, newer=True)
    remote_log_index_file_cache_total_size_bytes = long(1 * GIB, at_least(1), LOW, CLUSTER_WIDE)
    remote_log_index_file_cache_ttl_ms = long(15 * MINUTE_MS, at_least(-1), LOW, internal=True, newer=True)
    remote_log_manager_copier_thread_pool_size = integer(-1, between(1, INT_MAX, extra=-1))
    remote_log_manager_copy_max_bytes_per_second = long(LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE)
    remote_log_manager_copy_quota_window_num = integer(11, at_least(1))
    remote_log_manager_copy_quota_window_size_seconds = integer(1, at_least(1))
    remote_log_manager_expiration_thread_pool_size = integer(-1, between(1, INT_MAX, extra=-1))
    remote_log_manager_fetch_max_bytes_per_second = long(LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE)
    remote_log_manager_fetch_quota_window_num = integer(11, at_least(1))
    remote_log_manager_fetch_quota_window_size_seconds = integer(1, at_least(1))
    remote_log_manager_follower_thread_pool_size = integer(2, at_least(1), MEDIUM, CLUSTER_WIDE, newer=True)
    remote_log_manager_task_interval_ms = long(30_000, at_least(1), LOW)
    remote_log_manager_task_retry_backoff_max_ms = long(30_000, at_least(1), LOW, internal=True)
    remote_log_manager_task_retry_backoff_ms = long(500, at_least(1), LOW, internal=True)
    remote_log_manager_task_retry_jitter = double(0.2, between(0, 0.5), LOW, internal=True)
    remote_log_manager_thread_pool_size = integer(10, at_least(1))
    remote_log_metadata_custom_metadata_max_bytes = integer(128, at_least(0), LOW)
    remote_log_metadata_manager_class_name = string(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", NotEmpty()
    )
    remote_log_metadata_manager_class_path = string(None)
    remote_log_metadata_manager_impl_prefix = string("rlmm.config.", NotEmpty())
    remote_log_metadata_manager_listener_name = string(None, NotEmpty())
    remote_log_reader_max_pending_tasks = integer(100, at_least(1))
    remote_log_reader_threads = integer(10, at_least(1))
    remote_log_storage_manager_class_name = string(None, NotEmpty())
    remote_log_storage_manager_class_path = string(None)
    remote_log_storage_manager_impl_prefix = string("rsm.config.", NotEmpty())
    remote_log_storage_system_enable = boolean(False)

    # KRaft; kept so that a file or a tool that names them is understood.
    broker_heartbeat_interval_ms = integer(2_000)
    broker_session_timeout_ms = integer(9_000)
    controller_listener_names = string(None, importance=HIGH)
    controller_performance_always_log_threshold_ms = long(2_000, at_least(0), internal=True, newer=True)
    controller_performance_sample_period_ms = long(1 * MINUTE_MS, at_least(100), internal=True, newer=True)
    controller_quorum_append_linger_ms = integer(25)
    controller_quorum_auto_join_enable = boolean(False, LOW, newer=True)
    controller_quorum_bootstrap_servers = string_list("", importance=HIGH)
    controller_quorum_election_backoff_max_ms = integer(1_000, importance=HIGH)
    controller_quorum_election_timeout_ms = integer(1_000, importance=HIGH)
    controller_quorum_fetch_max_bytes = integer(1 * MIB, at_least(1), LOW, newer=True)
    controller_quorum_fetch_snapshot_max_bytes = integer(1 * MIB, at_least(1), LOW, newer=True)
    controller_quorum_fetch_timeout_ms = integer(2_000, importance=HIGH)
    controller_quorum_request_timeout_ms = integer(2_000)
    controller_quorum_retry_backoff_ms = integer(20, importance=LOW)
    controller_quorum_voters = string_list("", importance=HIGH)
    eligible_leader_replicas_enable = boolean(False, HIGH)
    initial_broker_registration_timeout_ms = integer(1 * MINUTE_MS)
    internal_metadata_delete_delay_millis = long(1 * MINUTE_MS, importance=LOW, internal=True, newer=True)
    internal_metadata_log_segment_bytes = integer(None, importance=LOW, internal=True, newer=True)
    internal_metadata_max_batch_size_in_bytes = integer(8 * MIB, importance=LOW, internal=True, newer=True)
    metadata_log_dir = string(None, importance=HIGH)
    metadata_log_max_record_bytes_between_snapshots = long(20 * MIB, at_least(1), HIGH)
    metadata_log_max_snapshot_interval_ms = long(1 * HOUR_MS, at_least(0), HIGH)
    metadata_log_segment_bytes = integer(1 * GIB, at_least(12), HIGH)
    metadata_log_segment_min_bytes = integer(8 * MIB, at_least(12), HIGH, internal=True)
    metadata_log_segment_ms = long(7 * DAY_MS, importance=HIGH)
    metadata_max_idle_interval_ms = integer(500, at_least(0), LOW)
    metadata_max_retention_bytes = long(100 * MIB, importance=HIGH)
    metadata_max_retention_ms = long(7 * DAY_MS, importance=HIGH)
    process_roles = string_list("", one_of("broker", "controller"), HIGH)
    unstable_api_versions_enable = boolean(False, HIGH, internal=True)
    unstable_feature_versions_enable = boolean(False, HIGH, internal=True)

    # kavka's own: bounds that Kafka leaves to the heap of its JVM.
    kavka_max_in_flight_requests_per_connection = integer(1_000, at_least(1))
    kavka_max_output_bytes_per_connection = integer(4 * MIB, at_least(1))
    kavka_max_receiving_bytes = long(256 * MIB, at_least(1 * MIB))
    kavka_tls_max_handshakes = integer(1_000, at_least(1), LOW)
    kavka_tls_handshake_timeout_ms = integer(10_000, at_least(1), LOW)
    kavka_ssl_reload_interval_ms = integer(30_000, at_least(0), LOW)
    kavka_ssl_crl_location = string(None, importance=MEDIUM)
    kavka_strict_key_permissions = boolean(False, MEDIUM)
    # kavka's own: tokens (config/oauthbearer.py).
    kavka_oauthbearer_allowed_urls = string_list("", importance=MEDIUM)
    kavka_oauthbearer_unsecured = boolean(False, MEDIUM)
    # kavka's own: guessing passwords (security/failed_login_delay.py).
    kavka_authentication_free_failures = integer(20, between(0, 1_000_000), LOW)
    kavka_authentication_max_delay_ms = integer(10_000, between(100, 600_000), LOW)
    # kavka's own: no listener in clear where others reach it.
    kavka_refuse_insecure_listeners = boolean(False, MEDIUM)
    # kavka's own: how soon a dead controller is followed (controller/term/fast_failover.py).
    kavka_controller_fast_failover = boolean(True, MEDIUM)
    # kavka's own: why-records (broker/decisions/decision_log.py).
    kavka_decisions_topic_enable = string("auto", one_of("auto", "true", "false"), MEDIUM)
    kavka_decisions_ring_bytes = integer(2 * MIB, at_least(64 * KIB), LOW)
    kavka_decisions_retention_ms = long(30 * DAY_MS, at_least(-1), LOW)
    kavka_decisions_retention_bytes = long(256 * MIB, at_least(-1), LOW)
    # kavka's own: where the time of requests went (broker/decisions/request_traces.py).
    kavka_slow_request_ms = integer(1_000, at_least(-1), MEDIUM, CLUSTER_WIDE)
    kavka_request_trace_sample = integer(0, at_least(0), MEDIUM, CLUSTER_WIDE)
    kavka_request_traces_ring_bytes = integer(8 * MIB, at_least(64 * KIB), LOW)
    kavka_otlp_traces_endpoint = string("", importance=LOW)
    # kavka's own: the recording that kavka replay reads (flight/recorder.py).
    kavka_flight_recorder_enable = boolean(True, LOW)
    kavka_flight_recorder_bytes = integer(32 * MIB, at_least(64 * KIB), LOW)
    # kavka's own: who is in sync, and what that commits (replication/).
    kavka_replica_lag_policy = string("time", one_of("time", "messages"), MEDIUM)
    kavka_replica_lag_max_messages = long(4_000, at_least(1), LOW)
    kavka_eligible_leader_replicas_enable = boolean(False, MEDIUM)
    # kavka's own: a broker that would begin without its logs (broker/membership/log_directory_check.py).
    kavka_abandoned_log_dirs = string_list("", importance=LOW)
    # kavka's own: metrics for Prometheus (runtime/http/metrics_server.py).
    kavka_metrics_port = integer(0, between(0, 65_535), MEDIUM)
    kavka_metrics_host = string("", importance=LOW)
    # kavka's own: the embedded ZooKeeper.
    kavka_zookeeper_data_dir = string("", importance=HIGH)
    kavka_zookeeper_sasl_jaas_config = password()
    kavka_zookeeper_sync = string("always", one_of("always", "never"))


class DynamicOnlySettings(Settings):
    """Settings of a broker that no file may hold: they are only ever set at run time, by a reassignment's throttle."""

    leader_replication_throttled_rate = long(LONG_MAX, at_least(0), MEDIUM, PER_BROKER)
    follower_replication_throttled_rate = long(LONG_MAX, at_least(0), MEDIUM, PER_BROKER)
    replica_alter_log_dirs_io_max_bytes_per_second = long(LONG_MAX, at_least(0), MEDIUM, PER_BROKER)
